"""Trace functions that are written with lastbit's own array-like operators."""
