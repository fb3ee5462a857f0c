"""Exact functions of numbers that are written as text."""

from fractions import Fraction

from lastbit.reals import Number, apply


def f(fn: str, *args: Number | int | str) -> Number:
    """Apply a function to numbers; text and integers are rationals."""
    return apply(fn, *(Fraction(x) if isinstance(x, (int, str)) else x for x in args))
