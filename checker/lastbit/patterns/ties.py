"""Choices of an index among elements that may be equal, and the rule by which they are made."""

from __future__ import annotations

from collections.abc import Collection

from lastbit.choices import Ties, choice_of, with_ties
from lastbit.graph import Node, Reduce
from lastbit.patterns import find, replace
from lastbit.rule import Edits, MismatchError, Site


def choices_by(root: Node, ties: Collection[Ties]) -> list[Reduce]:
    """Return the choices in a definition that are made by one of some rules for equal elements."""

    def made_so(reduce: Reduce) -> bool:
        choice = choice_of(reduce.op)
        return choice is not None and choice.ties in ties

    return find(root, Reduce, made_so)


def chosen_otherwise(site: Site, ties: Collection[Ties], rule: Ties, need: str) -> Edits:
    """Return the definition with another rule for equal elements.

    Args:
        site: where indices are chosen.
        ties: the rules that are replaced.
        rule: the new one.
        need: what is needed, where no index is chosen by any of them.

    Raises:
        MismatchError: none is.
    """
    node = site.node
    for chosen in choices_by(node, ties):
        node = replace(node, chosen, Reduce(with_ties(chosen.op, rule), chosen.x, chosen.axis))
    if node is site.node:
        raise MismatchError(need)
    return {site.name: node}
