"""Read the graphs that other tools write, and turn them into programs.

`imported` says what comes out, `writer` is what every importer writes it with, `aten` holds torch's
operators with torch's rounding contracts. Nothing here imports torch or numpy.
"""
