"""Inputs that are given to a kernel, and results that were observed, from arrays or files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.formats import Format
from lastbit.inference.arrays import codes_of, plain_array
from lastbit.inference.files import read_tensors, tensor_in
from lastbit.inference.reference import Reference
from lastbit.round_array import Codes

NAMING = (".npz", ".safetensors")  # files that name their tensors


def given_inputs(reference: Reference, data: Any) -> dict[str, Codes]:
    """Return codes of each input, from a file or from arrays by name.

    Raises:
        InputError: one is missing, or does not fit.
    """
    wanted = {node.name: (node.format, node.shape) for node in reference.inputs}
    if isinstance(data, str):
        _require_names(data, wanted, "input")
        return {
            name: tensor_in(data, name, fmt, shape, f"the input `{name}`")
            for name, (fmt, shape) in wanted.items()
        }
    return _named_arrays(data, wanted, "input")


def observed_results(reference: Reference, observed: Any) -> dict[str, Codes]:
    """Return codes of each result, from a file, an array, or arrays by name or in order.

    Raises:
        InputError: one is missing, or does not fit.
    """
    wanted = {r.name: (r.format, r.shape) for r in reference.results}
    if isinstance(observed, str):
        _require_names(observed, wanted, "result")
        return {
            name: tensor_in(observed, name, fmt, shape, f"the result `{name}`")
            for name, (fmt, shape) in wanted.items()
        }
    if not isinstance(observed, Mapping):
        several = isinstance(observed, tuple | list)
        observed = dict(zip(wanted, observed if several else [observed], strict=False))
    return _named_arrays(observed, wanted, "result")


def names_in(path: str) -> list[str]:
    """Return the names of the tensors in a file; none where it names none."""
    if Path(path).suffix not in NAMING:
        return []
    found = read_tensors(path)
    return list(found) if isinstance(found, Mapping) else []


def _require_names(path: str, wanted: Mapping[str, object], what: str) -> None:
    """Refuse a file that names tensors and lacks one; of one result any name will do."""
    names = names_in(path)
    missing = [name for name in wanted if name not in names]
    if missing and names and len(wanted) > 1:
        remedy = f"It has {', '.join(names)}; each {what} is read by its name."
        problem = Problem(f"has no tensor `{missing[0]}`", remedy, Place(path))
        raise InputError([problem])


def _named_arrays(
    given: Any, wanted: Mapping[str, tuple[Format, tuple[int, ...]]], what: str
) -> dict[str, Codes]:
    if not isinstance(given, Mapping):
        raise _error(
            f"the {what}s are of type {type(given).__name__}", f"Give arrays by name of the {what}."
        )
    found = {}
    for name, (fmt, shape) in wanted.items():
        if name not in given:
            raise _error(f"the {what} `{name}` has no array", did_you_mean(name, given))
        plain = plain_array(given[name])
        if plain is None:
            raise _error(f"the {what} `{name}` is of type {type(given[name]).__name__}, no array")
        array, held = plain
        if [n for n in array.shape if n != 1] != [n for n in shape if n != 1]:
            raise _error(
                f"the {what} `{name}` has the shape {list(array.shape)}, not {list(shape)}"
            )
        codes = codes_of(array, held, fmt)
        if isinstance(codes, str):
            raise _error(f"the {what} `{name}` holds {codes}")
        found[name] = np.ascontiguousarray(codes.reshape(shape))
    return found


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
