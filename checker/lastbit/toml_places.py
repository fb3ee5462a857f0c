"""Find where in a TOML or JSON text each key and each value stands.

`tomllib` and `json` give no positions. This scanner walks the same text once and notes the offset
of every key and value under its path, such as `("transform", 2, "rule")`. It serves messages only:
it accepts more than the two languages do, and stops quietly where it cannot go on, since the real
parser then has something to say.

It also finds what would stop the real parser although the rest of the file can be judged: dates
that do not exist, numbers beyond reason, and keys given twice. `Places.repaired` is the text with
these replaced, character for character, so that every position stays.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

MAX_DEPTH = 64  # of tables and arrays inside each other, and of the parts of a dotted key
MAX_NUMBER = 400  # characters

_GAP = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_DOT = re.compile(r"[ \t]*+\.[ \t]*+")
_STRING = re.compile(
    r'"""(?:[^\\"]++|\\[\s\S]|"(?!""))*+"{3,5}'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^\\"\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*+|[^\s,\]}#]++")
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d")
_ESCAPE = re.compile(r"\\[ \t]*\n\s*|\\[\s\S]|\n")


class TooDeepError(Exception):
    """Tables and arrays are nested beyond `MAX_DEPTH`.

    Attributes:
        line: where, counted from 1.
        column: where, counted from 1.
    """

    def __init__(self, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(f"nested more than {MAX_DEPTH} deep")


@dataclass(frozen=True, slots=True)
class Odd:
    """Something that the real parser would stop at: a `date`, a `number` or a key given `twice`.

    Attributes:
        kind: one of the three words.
        path: of the value.
        offset: where it begins.
        text: the value, or the key.
    """

    kind: str
    path: Path
    offset: int
    text: str


@dataclass
class Places:
    """The offsets of keys and values, by path.

    Attributes:
        text: the whole text; line ends of Windows are replaced by plain ones.
        keys: where each key begins; for a table, its header.
        values: where each value begins.
        odd: what `repaired` replaces.
        repaired: the text for the real parser.
    """

    text: str
    keys: dict[Path, int] = field(default_factory=dict)
    values: dict[Path, int] = field(default_factory=dict)
    odd: list[Odd] = field(default_factory=list)
    repaired: str = ""

    def __post_init__(self) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def key(self, path: Path) -> tuple[int, int]:
        """Return line and column of a key, or of the nearest thing around it."""
        return self._first(path, self.keys, self.values)

    def value(self, path: Path) -> tuple[int, int]:
        """Return line and column of a value, or of its key, or of the nearest thing around it."""
        return self._first(path, self.values, self.keys)

    def _first(self, path: Path, *maps: dict[Path, int]) -> tuple[int, int]:
        for end in range(len(path), 0, -1):
            for offsets in maps:
                if path[:end] in offsets:
                    return self.position(offsets[path[:end]])
        return 1, 1

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a line, counted from 1."""
        if not 0 < number <= len(self._starts):
            return ""
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end]

    def string_lines(self, path: Path, count: int) -> list[int]:
        """Return, for each of the `count` lines of a string, its line in the file."""
        line, _ = self.value(path)
        match = _STRING.match(self.text, self.values.get(path, len(self.text)))
        token = match[0] if match else ""
        lines = [line]
        if token.startswith(("'''", '"""')):
            body = token[3:-3]
            if body.startswith("\n"):
                body, lines = body[1:], [line + 1]
            line = lines[0]
            for part in _ESCAPE.findall(body) if token[0] == '"' else "\n" * body.count("\n"):
                line += part.count("\n")
                if part in ("\n", "\\n"):
                    lines.append(line)
        return [*lines, *[line] * count][:count]


def scan(text: str, json: bool = False) -> Places:
    """Return the places of a TOML or JSON text.

    Raises:
        TooDeepError: the values are nested beyond `MAX_DEPTH`.
    """
    scanner = _Scanner(text)
    try:
        if json:
            scanner.value(scanner.gap(0), (), ":")
        else:
            scanner.document()
    except _StopError:
        pass
    return scanner.finish()


class _StopError(Exception):
    """The text is no TOML or JSON from here on."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.places = Places(text)
        self.tables: dict[Path, int] = {}  # the arrays of tables, and how many they have
        self.edits: list[tuple[int, int, str]] = []

    def finish(self) -> Places:
        pieces, end = [], 0
        for start, stop, new in self.edits:
            pieces += [self.text[end:start], new]
            end = stop
        self.places.repaired = "".join([*pieces, self.text[end:]])
        return self.places

    def gap(self, at: int) -> int:
        """Skip spaces, line ends and comments."""
        match = _GAP.match(self.text, at)
        return match.end() if match else at

    def space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def expect(self, token: str, at: int) -> int:
        if not self.text.startswith(token, at):
            raise _StopError
        return at + len(token)

    def document(self) -> None:
        at, table = self.gap(0), Path()
        while at < len(self.text):
            if self.text[at] == "[":
                at, table = self.header(at)
            else:
                at = self.entry(at, table, "=", inline=False)
            at = self.gap(at)

    def header(self, start: int) -> tuple[int, Path]:
        """Read `[a.b]` or `[[a.b]]`."""
        array = self.text.startswith("[[", start)
        parts, at = self.dotted(self.space(start + 1 + array))
        at = self.expect("]]" if array else "]", self.space(at))
        path = Path()
        for part in parts[:-1]:
            path = (*path, part)
            if path in self.tables:
                path = (*path, self.tables[path] - 1)
        path = (*path, parts[-1])
        self.places.keys.setdefault(path, start)
        if array:
            self.tables[path] = self.tables.get(path, 0) + 1
        if path in self.tables:
            path = (*path, self.tables[path] - 1)
            self.places.keys.setdefault(path, start)
        return at, path

    def entry(self, start: int, table: Path, sign: str, inline: bool) -> int:
        """Read `a.b = value`; a second value of one key is blanked, unless it is inline."""
        gap = self.gap if inline else self.space
        parts, end = self.dotted(start)
        at = gap(self.expect(sign, gap(end)))
        path = (*table, *parts)
        for i in range(len(table), len(path)):
            self.places.keys.setdefault(path[: i + 1], start)
        if path not in self.places.values:
            return self.value(at, path, sign)
        self.places.odd.append(Odd("twice", path, start, self.text[start:end]))
        mark = len(self.edits)
        at = self.value(at, (*path, "the second"), sign)
        if not inline:
            self.edits[mark:] = [(start, at, re.sub(r"[^\n]", " ", self.text[start:at]))]
        return at

    def dotted(self, at: int) -> tuple[Path, int]:
        parts: list[str | int] = []
        start = at
        while True:
            if match := _BARE.match(self.text, at):
                parts.append(match[0])
            elif match := _STRING.match(self.text, at):
                parts.append(_content(match[0]))
            else:
                raise _StopError
            if len(parts) > MAX_DEPTH:
                raise TooDeepError(*self.places.position(start))
            dot = _DOT.match(self.text, match.end())
            if not dot:
                return tuple(parts), match.end()
            at = dot.end()

    def value(self, at: int, path: Path, sign: str) -> int:
        if len(path) > MAX_DEPTH:
            raise TooDeepError(*self.places.position(at))
        self.places.values[path] = at
        if match := _STRING.match(self.text, at):
            return match.end()
        if self.text.startswith("[", at):
            return self.items(at, path, sign, "]")
        if self.text.startswith("{", at):
            return self.items(at, path, sign, "}")
        match = _SCALAR.match(self.text, at)
        if not match:
            raise _StopError
        self.scalar(match, path)
        return match.end()

    def items(self, at: int, path: Path, sign: str, close: str) -> int:
        """Read an array or an inline table."""
        at, count = self.gap(at + 1), 0
        while not self.text.startswith(close, at):
            if close == "]":
                at = self.value(at, (*path, count), sign)
                count += 1
            else:
                at = self.entry(at, path, sign, inline=True)
            at = self.gap(at)
            if not self.text.startswith(close, at):
                at = self.gap(self.expect(",", at))
        return at + 1

    def scalar(self, match: re.Match[str], path: Path) -> None:
        token = match[0]
        kind = "number" if len(token) > MAX_NUMBER else ""
        if not kind and _DAY.match(token) and not _parses(token):
            kind = "date"
        if kind:
            self.places.odd.append(Odd(kind, path, match.start(), token))
            self.edits.append((*match.span(), f'"{token[1:-1]}"'))


def _parses(token: str) -> bool:
    try:
        tomllib.loads(f"x = {token}")
    except ValueError:
        return False
    return True


def _content(token: str) -> str:
    """Return what a quoted key says."""
    try:
        return str(tomllib.loads(f"x = {token}")["x"])
    except (ValueError, RecursionError):
        raise _StopError from None
