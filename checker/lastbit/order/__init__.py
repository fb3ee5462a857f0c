"""Reveal the order in which a function adds: its summation tree, from calls alone.

`reveal` is the way in. `probe` calls the function, `units` fits M and the units to a format,
`guess` and `proof` find regular trees with few calls, `search` finds any; `checks` tells functions
that have no tree; `tree`, `recognise` and `draw` say what was found.
"""

from __future__ import annotations

from lastbit.order.findings import NoTreeError
from lastbit.order.reveal import Order, order_of_schedule, reveal_order
from lastbit.order.tree import OrderTree, tree_of_schedule

__all__ = [
    "NoTreeError",
    "Order",
    "OrderTree",
    "order_of_schedule",
    "reveal_order",
    "tree_of_schedule",
]
