"""Integers that leave the range of their format."""

from __future__ import annotations

from fractions import Fraction

from lastbit.formats import Format
from lastbit.graph import Node, apply


def low_bits(x: Node, fmt: Format) -> Node:
    """Return what a format's bits hold of an integer: the integer modulo 2^bits, in its range."""
    count = Fraction(2**fmt.bits)
    turns = apply("floor", apply("div", apply("sub", x, fmt.min_finite), count))
    return apply("sub", x, apply("mul", turns, count))
