"""A small plan whose transforms meet."""

from __future__ import annotations

from datetime import date

TODAY = date(2026, 1, 1)
GRAPH = """schema = 1
[graph]
name = "small"
symbols = { M = [1, 64], K = 32 }
batch = "M"
text = '''
x: f32[M, K]
v: bf16[M, 1]
b: bf16[M, 1]
y: f32 = sum(x, axis=1) acc f32 seq
t: bf16 = y * v
z: bf16 = t + b
o: bf16 = z * 3
'''
"""
SPLIT = '[[transform]]\nrule = "split-k"\nat = ["y"]\nn = 4\n'
DROP = '[[transform]]\nrule = "drop-rounding"\nat = ["t"]\n'
