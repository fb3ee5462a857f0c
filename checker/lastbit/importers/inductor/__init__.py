"""Read what Inductor did to a graph, from its debug folder: `TORCH_COMPILE_DEBUG=1`.

    lastbit lint torch_compile_debug/run_.../torchinductor

`folder` finds the files, `fx` reads the printed graphs, `loops` the loop bodies. `meanings` and
`matching` put the two side by side, `unrounded` says what is read before its rounding, `reading`
which roundings are gone, `pieces` cuts regions where values are stored, `stages` names the pass
that changes a verdict first, and `comparing` judges. Nothing in a folder is run, and torch is not
imported; `capture`, `passes`, `rerun` and `running`, which compile and run a function, import it.
"""
