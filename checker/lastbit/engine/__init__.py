"""Whole matrix products by any schedule, bit for bit as matrix units and processors compute them.

`lastbit.machines.step` defines a step in exact rationals, and `lastbit.schedule.fold` every tree;
this package computes the same bits with numpy (`product`), or with torch on any device
(`torch_product`), for all outputs at once.

    tape           a schedule over K products as a list of instructions
    operands       codes as numbers and exponents
    narrow         chains of a matrix unit in binary32, for operands of like magnitude: the fast way
    wide           every step, in binary64
    tiles          the instructions on a tile of outputs
    epilogue       alpha, bias and the rounding of the output
    product        tiles and threads
    torch_product  the instructions on whole matrices, with torch
    device_block   codes as numbers and exponents, on a device of torch
    cuda_chain     chains of a matrix unit on an NVIDIA GPU, by the kernel in chain.cu
"""
