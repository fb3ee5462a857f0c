"""Decide what kind of change a transform is, and show an input."""
