"""Run a program of torch, and say which of its operators breaks which promise.

One run of the target is watched; each operator is run again by itself on the inputs that it had, so
that one whose results differ only because its inputs do is not blamed.

    batch       which axes count rows, from two runs with different batch sizes
    recording   what is watched: operators, custom ones, launches of Triton kernels
    case        one recorded operator: on all its rows, or on some of them
    trials      what is done with a case; thresholds: at which batch sizes its bits change
    running     the whole audit; records: its result; text: its report
"""
