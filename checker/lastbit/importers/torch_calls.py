"""Functions and modules of torch that a user names, with the tensors they are called with.

A target is a function of tensors, a module, a class of modules that needs no arguments, or a
function that needs none and returns one (`build`). Inputs come from its attribute `inputs`:
tensors, texts such as `bf16[64, 4096]`, or a function that returns either; those of the command
line go first.
torch is imported here, and only when a target is resolved.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from lastbit.errors import InputError, LastbitError, Problem
from lastbit.tracing.calls import raised_in_file
from lastbit.tracing.spec import Spec, parse_spec

TYPICAL = 64  # the size of a symbol
MOST_ELEMENTS = 2**28  # of a drawn input
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
INPUTS = 'Give it an attribute `inputs`, a tuple of tensors, or write --input "x=bf16[64, 64]".'


@dataclass(frozen=True, slots=True)
class Target:
    """Something to call.

    Attributes:
        label: as the user named it.
        call: the function or module.
        args: tensors for its parameters, in order.
        grad: whether gradients are wanted: an input requires them, or a module is in training.
        keywords: tensors for its parameters that go by name only.
        by_name: whether the tensors were given by the names of its parameters, else in order.
    """

    label: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    grad: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)
    by_name: bool = False


def load_torch() -> Any:
    """Return the module `torch`.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError:
        problem = Problem("torch is not installed", "Run `pip install 'lastbit[torch]'`.")
        raise InputError([problem]) from None


def calls_torch(target: Any) -> bool:
    """Return whether a target is torch's: a module, a builder of one, or it reads tensors.

    Nothing is imported: without torch loaded, by the target's own file, it is not.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(target, torch.nn.Module) or _is_module_class(target):
        return True
    given = getattr(target, "inputs", None)
    if callable(given) or _holds_tensor(given):
        return True
    if isinstance(given, tuple | list):
        return False
    hints = getattr(target, "__annotations__", {})
    if any("Tensor" in str(hint) and "lastbit" not in str(hint) for hint in hints.values()):
        return True
    names = set(getattr(getattr(target, "__code__", None), "co_names", ()))
    space = getattr(target, "__globals__", {})
    used = [space[name] for name in names if name in space]
    owners = [(getattr(one, "__name__", ""), getattr(one, "__module__", "")) for one in used]
    return any(str(word).partition(".")[0] == "torch" for pair in owners for word in pair)


def _holds_tensor(given: Any) -> bool:
    """Return whether inputs, in tuples, lists and mappings, have a tensor of torch among them."""
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, tuple | list):
        return any(map(_holds_tensor, given))
    return isinstance(given, load_torch().Tensor)


def _is_module_class(target: Any) -> bool:
    torch = load_torch()
    return inspect.isclass(target) and issubclass(target, torch.nn.Module)


def resolve(
    label: str,
    target: Any,
    inputs: Mapping[str, Spec | str] | None = None,
    seed: int = 0,
    given: Any = None,
    keywords: bool = False,
) -> Target:
    """Return what a target is to be called with.

    Args:
        label: as the user named it.
        target: the function, module or builder.
        inputs: format and shape of parameters by name.
        seed: selects the values of inputs that are drawn.
        given: inputs for a target that has no attribute `inputs`.
        keywords: whether the caller hands over parameters that go by name only.

    Raises:
        InputError: it has no inputs, or does not build.
    """
    torch = load_torch()
    torch.manual_seed(seed)
    given = getattr(target, "inputs", given)
    if _is_module_class(target) or (given is not None and _is_builder(target)):
        target = _called(label, target)
        given = given if given is not None else getattr(target, "inputs", None)
    if not callable(target):
        raise _error(f"{label} gives a {type(target).__name__}, no function or module", "")
    if not inputs and callable(given):
        given = _called(f"{label}.inputs", given)
    given = inputs or given
    named: dict[str, Any] = {}
    if isinstance(given, Mapping):
        args, named = _named(label, target, given, seed)
    else:
        args = _given(label, given, seed)
    if named and not keywords:
        remedy = "Make it a parameter that can be given by position."
        raise _error(f"{label} takes `{next(iter(named))}` by name only", remedy)
    module = target if isinstance(target, torch.nn.Module) else None
    trained = False
    if module is not None and module.training:
        trained = any(parameter.requires_grad for parameter in module.parameters())
    wants = any(isinstance(x, torch.Tensor) and x.requires_grad for x in (*args, *named.values()))
    return Target(label, target, args, trained or wants, named, isinstance(given, Mapping))


def _is_builder(target: Any) -> bool:
    """Return whether a function can be called without arguments."""
    if inspect.isclass(target) or not inspect.isfunction(target):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return all(
        parameter.default is not parameter.empty or parameter.kind not in kinds
        for parameter in inspect.signature(target).parameters.values()
    )


def _called(label: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        code = getattr(inspect.unwrap(function), "__code__", None)
        raise raised_in_file(error, code.co_filename if code else label) from error


def _given(label: str, given: Any, seed: int) -> tuple[Any, ...]:
    if not isinstance(given, tuple | list) or not given:
        raise _error(f"{label} has no inputs", INPUTS)
    return tuple(
        _drawn(one if isinstance(one, Spec) else parse_spec(one), seed + number)
        if isinstance(one, Spec | str)
        else one
        for number, one in enumerate(given)
    )


def _named(
    label: str, target: Any, given: Mapping[str, Spec | str | Any], seed: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs by name as those by position, and those that go by name only."""
    call = getattr(target, "forward", target)
    parameters = inspect.signature(call).parameters
    names = list(parameters)
    unknown = [name for name in given if name not in names]
    if unknown:
        listed = ", ".join(f"`{name}`" for name in names)
        raise _error(f"{label} has no parameter {unknown[0]!r}", f"It has {listed}.")
    args: list[Any] = []
    named: dict[str, Any] = {}
    skipped = ""  # a parameter that keeps its default: later ones go by name
    for number, name in enumerate(names):
        parameter = parameters[name]
        if name not in given:
            if parameter.default is parameter.empty and parameter.kind not in _MANY:
                raise _error(f"nothing is given for the parameter {name!r} of {label}", INPUTS)
            skipped = name
            continue
        one = given[name]
        spec = parse_spec(one) if isinstance(one, str) else one
        value = _drawn(spec, seed + number) if isinstance(spec, Spec) else spec
        if skipped or parameter.kind == parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            args.append(value)
    return tuple(args), named


def _drawn(spec: Spec, seed: int) -> Any:
    """Return a tensor as a text describes it; each symbol has the size 64."""
    import numpy as np

    torch = load_torch()
    names = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
    try:
        shape = [dim.evaluate(dict.fromkeys(dim.symbols, TYPICAL)) for dim in spec.dims]
    except LastbitError as error:
        raise _error(f"the shape of an input cannot be evaluated: {error}", "") from None
    if spec.format.short not in names:
        remedy = "Give tensors in the attribute `inputs`."
        raise _error(f"an input of {spec.format.short} cannot be drawn for torch", remedy)
    count = 1
    for size in shape:
        count *= size
    if count > MOST_ELEMENTS:
        remedy = f"At most {MOST_ELEMENTS} are drawn; write smaller sizes."
        raise _error(f"an input has {count} elements", remedy)
    random = np.random.default_rng(seed)
    drawn = spec.given()
    kind, (first, *rest) = ("normal", (0, 1)) if drawn is None else (drawn.kind, drawn.parameters)
    if kind == "normal":
        values = random.normal(float(first), float(rest[0]), shape)
    elif kind == "uniform":
        values = random.uniform(float(first), float(rest[0]), shape)
    elif kind == "integers":
        values = random.integers(int(first), int(rest[0]) + 1, shape).astype(float)
    else:
        values = np.full(shape, float(first))
    if drawn is not None and drawn.range is not None:
        values = values.clip(float(drawn.range[0]), float(drawn.range[1]))
    wide = torch.from_numpy(values.astype(np.float64 if spec.format.short == "f64" else np.float32))
    return wide.to(getattr(torch, names[spec.format.short]))


def _error(message: str, remedy: str) -> InputError:
    return InputError([Problem(message, remedy)])
