"""What several parts of the page share: figures side by side, boxes that scroll, links."""

from __future__ import annotations

from lastbit.report.page.escape import prose
from lastbit.result import Step


def side_figure(caption: str, drawn: str, name: str) -> str:
    """Return one of two figures.

    Args:
        caption: HTML over it.
        drawn: what it shows.
        name: what it is called where it is scrolled by keyboard.
    """
    return f"<figure class=side><figcaption>{caption}</figcaption>{scrolled(drawn, name)}</figure>"


def scrolled(content: str, name: str) -> str:
    """Return a box that scrolls where the page is narrow, by keyboard too."""
    return f'<div class=x tabindex=0 role=group aria-label="{name}">{content}</div>'


def step_link(anchor: str, step: Step) -> str:
    """Return a link to a step: its label, and the line that tells it from others of that label."""
    line = f" <span class=place>:{step.location.line}</span>" if step.location.line else ""
    return f"<a href=#{anchor}>{prose(step.label)}{line}</a>"
