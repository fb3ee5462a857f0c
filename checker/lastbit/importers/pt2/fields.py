"""Typed access to the JSON of a `.pt2` file: what does not fit is one error that says where."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from lastbit.importers.imported import ImportedFileError

T = TypeVar("T")


class Fields:
    """Reads members of objects.

    Args:
        file: as the user named it.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.where = "the graph"

    def fail(self, cause: str, remedy: str = "The file is damaged; write it again.") -> NoReturn:
        """Raise an error about the part that is being read."""
        raise ImportedFileError(self.file, f"{self.where}: {cause}", remedy)

    def member(self, holder: Any, name: str, kind: type[T]) -> T:
        """Return a member of an object, of a type.

        Raises:
            ImportedFileError: there is none, or it is of another type.
        """
        value = holder.get(name) if isinstance(holder, dict) else None
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
            words = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
            self.fail(f"`{name}` is not {words.get(kind, kind.__name__)}")
        return value

    def union(self, holder: Any) -> tuple[str, Any]:
        """Return the tag and the value of a union: an object with one member.

        Raises:
            ImportedFileError: it is none.
        """
        if not isinstance(holder, dict) or len(holder) != 1:
            self.fail("an argument is no object with one member")
        ((tag, value),) = holder.items()
        return str(tag), value

    def name(self, holder: Any) -> str:
        """Return the `name` of an object."""
        return self.member(holder, "name", str)
