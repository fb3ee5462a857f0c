"""The arguments of an operator by name, and calls with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lastbit.audit.case import Case
from lastbit.audit.taking import Rows


@dataclass(frozen=True)
class Call:
    """One call of an operator.

    Attributes:
        case: whose operator is called.
        args: its arguments.
        kwargs: its named arguments.
        function: what is called in place of the operator, or None.
        names: of the positional arguments: those of its schema, else their numbers.
    """

    case: Case
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    function: Callable[..., Any] | None = None
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        schema = getattr(self.case.function, "_schema", None)
        names = [str(i) for i in range(len(self.args))]
        if schema is not None:
            names = [argument.name for argument in schema.arguments][: len(self.args)]
        object.__setattr__(self, "names", tuple(names))

    @classmethod
    def of(cls, case: Case, rows: Rows | None) -> Call:
        """Return the call on some rows of the batch."""
        return cls(case, *case.arguments(rows))

    @property
    def named(self) -> dict[str, Any]:
        """Return every argument by its name."""
        return {**dict(zip(self.names, self.args, strict=True)), **self.kwargs}

    @property
    def written(self) -> frozenset[int]:
        """Return the identities of the tensors that the operator writes."""
        from lastbit.audit.leaves import leaves

        given = list(leaves((self.args, dict(self.kwargs))))
        return frozenset(id(given[number]) for number in self.case.written)

    def with_arguments(self, new: Mapping[str, Any]) -> Call:
        """Return the call with some arguments replaced."""
        args = tuple(
            new.get(name, value) for name, value in zip(self.names, self.args, strict=True)
        )
        kwargs = {name: new.get(name, value) for name, value in self.kwargs.items()}
        return Call(self.case, args, kwargs, self.function)

    def run(self) -> tuple[Any, ...]:
        """Return its results, as `Case.run` does; what it writes are the arguments themselves."""
        import torch

        with torch.no_grad():
            returned = (self.function or self.case.function)(*self.args, **self.kwargs)
            return self.case.results(returned, self.args, dict(self.kwargs))
