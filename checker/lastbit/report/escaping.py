"""What others wrote, made fit for reports: names and messages may hold any character.

A control character may end a line, start a terminal's command, or be forbidden in XML; half of a
surrogate pair cannot be encoded; a mark of direction shows text in another order than it has. Each
is written as its number, so that nothing is lost. Letters of any script stay.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Return a text in which unsafe characters are written as `\x1b`; lines and tabs stay."""
    return _UNSAFE.sub(_number, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return a text on one line, unsafe characters as numbers; a run of blanks is one blank."""
    return " ".join(visible(text).split())


def cut(text: str, most: int) -> str:
    """Return a text of at most about `most` characters, which says how many it leaves out."""
    if len(text) <= most:
        return text
    return f"{text[:most]} [{len(text) - most:,} characters cut]"


def _number(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
