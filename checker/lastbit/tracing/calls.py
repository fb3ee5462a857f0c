"""Call a user's function with recording values: its inputs, its results, and what goes wrong."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.rounding import Rounding
from lastbit.tracing.op import NOWHERE, Op
from lastbit.tracing.sizes import Sizes
from lastbit.tracing.source import PACKAGES, place_of, shown_file
from lastbit.tracing.spec import FORM, Spec, parse_spec
from lastbit.tracing.tensor import Tensor

SIDES = ("before", "after")


@dataclass(frozen=True)
class Side:
    """One of the two functions.

    Attributes:
        side: `before` or `after`.
        call: the function.
    """

    side: str
    call: Callable[..., Any]

    @property
    def place(self) -> Place:
        """Return where the function is defined; an empty place where that is not known."""
        code = getattr(inspect.unwrap(self.call), "__code__", None)
        return Place() if code is None else place_of(code.co_filename, code.co_firstlineno)

    @property
    def label(self) -> str:
        """Name the function in messages."""
        name = getattr(self.call, "__name__", "")
        if name in ("", self.side, "<lambda>"):
            return f"`{self.side}`"
        return f"`{self.side}` (`{name}`)"

    def error(self, message: str, remedy: str = "") -> InputError:
        """Return an error about the function as a whole."""
        return InputError([Problem(message, remedy, self.place)])

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters by name.

        Raises:
            InputError: it is no function, or its parameters have no names.
        """
        try:
            found = inspect.signature(self.call).parameters
        except (TypeError, ValueError):
            raise self.error(
                f"{self.label} is of type {type(self.call).__name__}, no function with parameters",
                "Give a function of lastbit's values.",
            ) from None
        for parameter in found.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise self.error(
                    f"{self.label} takes `{parameter}`, whose number is open",
                    "Give every input a parameter of its own.",
                )
        return dict(found)

    def own_inputs(self) -> dict[str, Spec]:
        """Return what the function itself says of its inputs.

        The attribute `inputs` counts first, then defaults, then annotations.
        """
        names = self.parameters()
        found: dict[str, Spec] = {}
        notes = self._annotations()
        for name, parameter in names.items():
            for given in (parameter.default, notes.get(name)):
                if isinstance(given, Spec):
                    found.setdefault(name, given)
        return {**found, **self._attribute(tuple(names))}

    def _annotations(self) -> Mapping[str, object]:
        try:
            return inspect.get_annotations(inspect.unwrap(self.call), eval_str=True)
        except Exception:  # annotations that mean nothing to Python mean nothing here
            return {}

    def _attribute(self, names: tuple[str, ...]) -> dict[str, Spec]:
        given = getattr(self.call, "inputs", None)
        if callable(given):
            given = self.run(given)
        if given is None:
            return {}
        if isinstance(given, Spec | str):
            given = (given,)
        if isinstance(given, tuple | list):
            if len(given) > len(names):
                raise self.error(
                    f"`inputs` of {self.label} gives {len(given)} inputs, and it takes "
                    f"{len(names)}",
                    "Give one for each parameter.",
                )
            given = dict(zip(names, given, strict=False))
        if not isinstance(given, Mapping):
            raise self.error(
                f"`inputs` of {self.label} is of type {type(given).__name__}",
                f'Write {{"x": "{FORM}"}}, or a tuple in the order of the parameters.',
            )
        return {str(name): self.spec(str(name), value) for name, value in given.items()}

    def spec(self, name: str, given: object) -> Spec:
        """Return the input that a value of the user stands for.

        Raises:
            InputError: it stands for none.
        """
        return as_spec(name, given, self.place)

    def run(self, call: Callable[..., Any], **given: object) -> Any:
        """Call what the user wrote; what it prints goes to stderr.

        Raises:
            InputError: it raised an exception, with its line.
        """
        try:
            with contextlib.redirect_stdout(sys.stderr):
                returned = call(**given)
        except InputError:
            raise
        except SystemExit as error:
            raise exited(error, self.label, self.place) from error
        except Exception as error:
            raise _raised(error, self.label, self.place) from error
        if inspect.iscoroutine(returned):
            returned.close()  # nothing awaits it, and Python would say so
            raise self.error(f"{self.label} is an async function", "Write `def` alone.")
        return returned


def as_spec(name: str, given: object, place: Place = NOWHERE) -> Spec:
    """Return the input that a value stands for: a Spec, or its text.

    Raises:
        InputError: it stands for none.
    """
    if isinstance(given, Spec):
        return given
    if isinstance(given, str):
        try:
            return parse_spec(given)
        except InputError as error:
            raise InputError(
                Problem(f"input `{name}`: {p.message}", p.remedy, place) for p in error.problems
            ) from None
    raise InputError(
        [
            Problem(
                f"input `{name}` is given as a value of type {type(given).__name__}",
                f'Write lastbit.bf16("M", 4096), or the text "{FORM}".',
                place,
            )
        ]
    )


def _raised(error: BaseException, label: str, default: Place) -> InputError:
    lines = traceback.format_exception_only(error)
    text = lines[-1].strip()
    if len(text) > 400:
        text = f"{text[:400]}..."
    message = f"{label} raised {text.rstrip('.')}"
    return InputError([Problem(message, "", _place(error.__traceback__) or default)])


def _place(trace: TracebackType | None) -> Place | None:
    """Return the innermost line of a traceback that is the user's."""
    found = None
    while trace is not None:
        root = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        file = trace.tb_frame.f_code.co_filename
        if root not in PACKAGES and linecache.getline(file, trace.tb_lineno):
            found = place_of(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def exited(error: SystemExit, label: str = "code", default: Place = NOWHERE) -> InputError:
    """Return the error of what would end the process, with its line.

    Args:
        error: what it raised.
        label: names it in the message.
        default: its place, where the line is not known.
    """
    place = _place(error.__traceback__) or default
    return InputError(
        [Problem(f"{label} asks Python to exit, and nothing was decided", "Leave it out.", place)]
    )


def raised_in_file(error: BaseException, file: str) -> InputError:
    """Return the error of a file that cannot be loaded, with its line."""
    default = Place(shown_file(file))
    if isinstance(error, SyntaxError) and error.lineno:
        place = place_of(error.filename or file, error.lineno, error.offset or 0)
        return InputError([Problem(f"this is no Python: {error.msg}", "", place)])
    if isinstance(error, SystemExit):
        remedy = 'Put what runs it under `if __name__ == "__main__":`.'
        place = _place(error.__traceback__) or default
        return InputError([Problem("the file exits while it is loaded", remedy, place)])
    return _raised(error, "the file", default)


def inputs_of(sides: Iterable[Side], given: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return every input of the two functions by name, in the order of their parameters.

    Args:
        sides: the functions.
        given: what the caller says of them, which counts first.

    Raises:
        InputError: an input is missing, unknown, or other on the two sides.
    """
    found: dict[str, Spec] = {}
    pairs = [(side, side.parameters(), side.own_inputs()) for side in sides]
    names = dict.fromkeys(name for _, parameters, _ in pairs for name in parameters)
    problems = []
    for name in given:
        if name not in names:
            remedy = did_you_mean(name, names) if names else "The functions take none."
            problems.append(Problem(f"no function takes the input `{name}`", remedy))
    for side, _, own in pairs:
        for name in own:
            if name not in names:
                remedy = did_you_mean(name, names) if names else "The functions take none."
                message = f"`inputs` of {side.label} gives `{name}`, which no function takes"
                problems.append(Problem(message, remedy, side.place))
            elif name not in given and found.setdefault(name, own[name]) != own[name]:
                message = f"`{name}` is {found[name]} for `before` and {own[name]} for `after`"
                problems.append(Problem(message, "Both read the same inputs.", side.place))
    found.update(given)
    missing: set[str] = set()
    for side, parameters, _ in pairs:
        for name, parameter in parameters.items():
            if name in found or name in missing or parameter.default is not parameter.empty:
                continue
            missing.add(name)
            message = f"the input `{name}` of {side.label} has no format and shape"
            problems.append(Problem(message, _given_by(side, name), side.place))
    if not names:
        message = "the functions take no inputs, so there is nothing to compare"
        problems.append(Problem(message, "Give each input a parameter."))
    if problems:
        raise InputError(dict.fromkeys(problems))
    return {name: found[name] for name in names if name in found}


def _given_by(side: Side, name: str) -> str:
    ways = [f'{name}=lastbit.bf16("M", 4096) in Python', f"--input '{name}={FORM}'"]
    function = getattr(side.call, "__name__", "")
    if function.isidentifier():
        ways.append(f'`{function}.inputs = {{"{name}": "{FORM}"}}` in the file')
    return f"Give {', '.join(ways[:-1])} or {ways[-1]}."


def recorded_inputs(specs: Mapping[str, Spec], fixed: Mapping[str, int]) -> dict[str, Op]:
    """Return the recording of each input, with a symbol for every number in `fixed`."""
    symbol = {str(number): name for name, number in fixed.items()}
    return {
        name: Op(
            "input",
            words=tuple(symbol.get(str(dim), str(dim)) for dim in given.dims),
            rounding=Rounding.of(given.format),
            value=name,
        )
        for name, given in specs.items()
    }


def results_of(side: Side, inputs: Mapping[str, Op], table: Sizes) -> dict[str, Op]:
    """Call a function with recording values, and return its results.

    Returns:
        by key of the dict or field of the named tuple that it returns; else by number.

    Raises:
        InputError: the function fails, or returns something else than values.
    """
    given = {name: Tensor(inputs[name], table) for name in side.parameters() if name in inputs}
    positional = [
        p.name
        for p in side.parameters().values()
        if p.kind is p.POSITIONAL_ONLY and p.name in given
    ]
    first = [given.pop(name) for name in positional]
    returned = side.run(lambda: side.call(*first, **given))
    if isinstance(returned, Tensor):
        returned = (returned,)
    fields = getattr(returned, "_fields", None)
    if isinstance(returned, tuple | list):
        keys = fields or map(str, range(len(returned)))
        returned = dict(zip(keys, returned, strict=True))
    if not isinstance(returned, Mapping) or not returned:
        what = "nothing" if returned in (None, {}) else f"a value of type {type(returned).__name__}"
        raise side.error(
            f"{side.label} returns {what}", "Return a value, a tuple of values, or a dict of them."
        )
    for key, value in returned.items():
        if not isinstance(value, Tensor):
            raise side.error(
                f"{side.label} returns a value of type {type(value).__name__} as result {key!r}",
                "Return values that were computed from the inputs.",
            )
    return {str(key): value._op for key, value in returned.items()}
