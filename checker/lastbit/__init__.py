"""Say what a change to an operator graph does to its numbers, before it is deployed."""

__version__ = "0.1.0"
