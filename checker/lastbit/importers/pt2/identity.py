"""What tells two calls of one operator apart: everything that its node holds but the tensors.

An operator that no table covers is equal on equal inputs only where all of this is equal too:
overload, plain arguments by name, sizes, types, devices, and graphs that it calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from lastbit.importers.pt2.fields import Fields

_SYMBOLIC = ("as_sym_int", "as_sym_float", "as_sym_bool")


def call_text(fields: Fields, node: Any, symbolic: Callable[[Any], str]) -> str:
    """Return all of a call but its tensors, which are `_`.

    Args:
        fields: reads the members of the node.
        node: the JSON of a node.
        symbolic: returns what a size, or another number that is computed, stands for.
    """
    parts = []
    for one in fields.member(node, "inputs", list):
        name = one.get("name") if isinstance(one, dict) else None
        parts.append(f"{name or ''}={_shown(fields, fields.member(one, 'arg', dict), symbolic)}")
    target = fields.member(node, "target", str)
    return f"{target.removeprefix('torch.ops.')}({', '.join(parts)})"


def _shown(fields: Fields, arg: Any, symbolic: Callable[[Any], str]) -> str:
    tag, held = fields.union(arg)
    if tag == "as_tensor":
        return "_"
    if tag == "as_none":
        return "None"
    if tag == "as_optional_tensor":
        return _shown(fields, held, symbolic)
    if tag in _SYMBOLIC:
        return symbolic(held)
    if isinstance(held, list):
        if tag == "as_tensors":
            return f"[{', '.join('_' for _ in held)}]"
        if tag == "as_optional_tensors":
            return f"[{', '.join(_shown(fields, one, symbolic) for one in held)}]"
        if tag.removesuffix("s") in _SYMBOLIC:
            return f"[{', '.join(map(symbolic, held))}]"
    if tag == "as_graph":
        return _graph(held)
    return f"{tag} {json.dumps(held, sort_keys=True)}"


def _graph(held: Any) -> str:
    """Return a digest of an inner graph without the places that it comes from."""
    inner = held.get("graph") if isinstance(held, dict) else held
    text = json.dumps(_bare(inner), sort_keys=True)
    return f"graph {blake2b(text.encode(), digest_size=16).hexdigest()}"


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if key != "metadata"}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def tensors(fields: Fields, node: Any) -> Iterator[tuple[str, str]]:
    """Yield the argument's name and the value's name of each tensor that a node is given."""
    for one in fields.member(node, "inputs", list):
        name = str(one.get("name") or "") if isinstance(one, dict) else ""
        tag, held = fields.union(fields.member(one, "arg", dict))
        many = held if tag in ("as_tensors", "as_optional_tensors") else [held]
        if tag not in ("as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors"):
            continue
        for one_of in many if isinstance(many, list) else []:
            inner, arg = "as_tensor", one_of
            if tag.startswith("as_optional"):
                inner, arg = fields.union(one_of)
            if inner == "as_tensor":
                yield name, fields.name(arg)
