"""Text of others inside Markdown and HTML: shown as it is, with names in backticks set as code.

Names and messages may hold marks of either language. In Markdown each mark is escaped by a
backslash, or where a backslash is not enough (`|` in a table, `@` before a name that would be
called) as HTML. A span of code that holds a mark of its own is written in HTML as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from lastbit.report.escaping import one_line

_SPAN = re.compile(r"`([^`]+)`")
_MARKS = re.compile(r"[\\`*_{}\[\]#~$!^]")
_PLAIN_CODE = re.compile(r"[^`|\\]+")
_CALL = re.compile(r"@(?=\w)")
_APART = "@<!-- -->"  # GitHub tells nobody whose name stands behind this


def markdown(text: str) -> str:
    """Return a text as Markdown on one line, fit for a cell of a table."""
    return _spans(one_line(text), _plain, code)


def html(text: str) -> str:
    """Return a text as HTML on one line."""
    return _spans(one_line(text), _html, _html_code)


def code(text: str) -> str:
    """Return a text as a span of code in Markdown, fit for a cell of a table."""
    text = one_line(text)
    if _PLAIN_CODE.fullmatch(text):
        return f"`{text}`"
    numbered = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text)
    return f"<code>{_CALL.sub(_APART, numbered)}</code>"


def _spans(text: str, plain: Callable[[str], str], coded: Callable[[str], str]) -> str:
    parts = _SPAN.split(text)  # text, code, text, code ... text
    return "".join(coded(part) if n % 2 else plain(part) for n, part in enumerate(parts))


def _plain(text: str) -> str:
    marked = _MARKS.sub(lambda match: f"\\{match[0]}", text)
    return _CALL.sub(_APART, escape(marked, quote=False).replace("|", "&#124;"))


def _html(text: str) -> str:
    return _CALL.sub(_APART, escape(text, quote=False))


def _html_code(text: str) -> str:
    return f"<code>{_html(text)}</code>"
