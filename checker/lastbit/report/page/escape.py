"""Texts that a result holds, as HTML: nothing in them is read as markup, and nothing hides."""

from __future__ import annotations

import re

# What a browser drops, or lets reorder a line: controls, bidirectional marks, lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\uffff\ud800-\udfff]"
)
ARROW = "\u2192"
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_MARKED = re.compile("[&<>\"']")
_CODE = re.compile("`([^`]+)`")


def escaped(text: object) -> str:
    """Return a text for an element or a quoted attribute; hidden characters become visible."""
    shown = _HIDDEN.sub(lambda found: _visible(found[0]), str(text))
    return _MARKED.sub(lambda found: _MARKUP[found[0]], shown)


def prose(text: str) -> str:
    """Return a sentence, with what stands in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escaped(arrows(text)))


def arrows(text: str) -> str:
    """Write `->` as an arrow."""
    return text.replace(" -> ", f" {ARROW} ")


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"
