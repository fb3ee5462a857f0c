"""What an HTML page says, as a parser sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "link", "meta"}
DRAWN = {"circle", "line", "path", "rect"}
IMPLIED = {  # elements whose end tag the page leaves out, and what ends them
    "dd": {"dt", "dd"},
    "dt": {"dt", "dd"},
    "li": {"li"},
    "td": {"td", "th", "tr"},
    "th": {"td", "th", "tr"},
    "tr": {"tr"},
}


@dataclass
class Element:
    """An element.

    Attributes:
        tag: its name.
        attributes: by name; one without a value has the empty text.
        children: elements and texts.
    """

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Return the elements inside, in order, of a name and with some attributes."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                wanted = not tag or child.tag == tag
                if wanted and all(
                    child.attributes.get(name.rstrip("_")) == value
                    for name, value in attributes.items()
                ):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def one(self, tag: str = "", **attributes: str) -> Element:
        """Return the only such element."""
        (element,) = self.all(tag, **attributes)
        return element

    @property
    def text(self) -> str:
        """The texts inside, with single spaces between words."""
        return re.sub(r"\s+", " ", _raw(self)).strip()


def _raw(node: Element | str) -> str:
    if isinstance(node, str):
        return node
    gap = "" if node.tag in {"b", "code", "i", "em", "tspan", "a"} else " "
    return f"{gap}{''.join(map(_raw, node.children))}{gap}"


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root")
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        while tag in IMPLIED.get(self.open[-1].tag, ()):
            self.open.pop()
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        while self.open[-1].tag != tag:
            assert self.open[-1].tag in IMPLIED, f"</{tag}> inside <{self.open[-1].tag}>"
            self.open.pop()
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    """Return the root of a page; a tag that is not closed where it must be is an error."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.open == [builder.root]
    return builder.root


def variables(style: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours of a style sheet, light and dark."""
    blocks = re.findall(r":root\s*\{([^}]*)\}", style)
    light, dark = (dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block)) for block in blocks[:2])
    return light, light | dark


def contrast(one: str, two: str) -> float:
    """Return the contrast of two colours (Web Content Accessibility Guidelines 2.2, 1.4.3)."""
    bright, dim = sorted((_luminance(one), _luminance(two)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(color: str) -> float:
    shares = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
