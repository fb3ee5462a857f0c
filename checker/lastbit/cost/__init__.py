"""What a program moves, holds and launches, counted from shapes, formats, fusion and tiles."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbit.cost.attention import Attention as Attention
    from lastbit.cost.devices import DEVICES as DEVICES
    from lastbit.cost.devices import Device as Device
    from lastbit.cost.devices import device_of as device_of
    from lastbit.cost.placement import ALL as ALL
    from lastbit.cost.placement import Placement as Placement
    from lastbit.cost.placement import Tile as Tile
    from lastbit.cost.residence import Block as Block
    from lastbit.cost.residence import blocks_needed as blocks_needed
    from lastbit.cost.residence import needed_in_flight as needed_in_flight
    from lastbit.cost.residence import occupancy as occupancy
    from lastbit.cost.search import explore as explore
    from lastbit.cost.traffic import ProgramCost as ProgramCost
    from lastbit.cost.traffic import cost_of_program as cost_of_program

_HOMES = {
    "attention": ("Attention",),
    "devices": ("DEVICES", "Device", "device_of"),
    "search": ("explore",),
    "residence": ("Block", "blocks_needed", "needed_in_flight", "occupancy"),
    "placement": ("ALL", "Placement", "Tile"),
    "traffic": ("ProgramCost", "cost_of_program"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in _HOME:
        return getattr(import_module(f"lastbit.cost.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lastbit.cost' has no attribute {name!r}")
