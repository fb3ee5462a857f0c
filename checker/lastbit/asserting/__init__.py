"""Assertions for tests: bits, ulp of a named format, batch invariance, determinism.

The functions live in `tensors` and `functions` and are public as `lastbit.assert_bitwise` and so
on. This module and `journal` import nothing heavy, since the pytest plugin loads them at the start
of every session.
"""
