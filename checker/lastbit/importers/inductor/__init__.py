"""Read what Inductor did to a graph, from its debug folder: `TORCH_COMPILE_DEBUG=1`.

    lastbit lint torch_compile_debug/run_.../torchinductor

`folder` finds the files, `fx` reads the printed graphs, `loops` the loop bodies. `meanings` and
`matching` put the two side by side, `reading` says which roundings are gone, `comparing` judges
them. Nothing in a folder is run, and torch is not imported; `capture` and `running`, which compile
a function, import it.
"""
