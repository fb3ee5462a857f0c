"""Check that a rule follows from its site alone, and leaves what it reads as it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lastbit.catalogue.trials import Trial
from lastbit.catalogue.workshop import Workshop
from lastbit.graph import Node, topological
from lastbit.hazards import standing_of
from lastbit.rule import Rewrite, Site

AGAIN = 4  # trials in which a rule is applied again, for each site in each setting


def unsteadiness(rule: Rewrite, workshops: Sequence[Workshop]) -> str:
    """Return why a rule can be judged by no trial; nothing where it can."""
    try:
        if rule.finds is not None:
            standing = standing_of(rule)
            found = [[(d.at, d.message) for d in rule.finds(standing)] for _ in range(2)]
            if not _whole(standing.program.nodes.values()):
                return "changes the graph in which it finds dangers; a rule changes nothing"
            if found[0] != found[1]:
                return "finds other dangers in the same graph the second time"
    except Exception:  # the rule is somebody's code; what it raises is reported later
        pass
    for shop in workshops:
        left: dict[tuple[str, ...], int] = {}
        for number, trial in enumerate(shop.trials):
            if left.setdefault(trial.at, AGAIN):
                problem = _of_trial(shop, number, trial)
                if problem:
                    return problem
                left[trial.at] -= shop.formed(number).admitted
    return ""


def _of_trial(shop: Workshop, number: int, trial: Trial) -> str:
    site = shop.site(number)
    nodes, given = dict(site.program.nodes), dict(site.parameters)
    edits = shop.formed(number).edits
    same = dict(site.program.nodes) == nodes and dict(site.parameters) == given
    if not same or not _whole(nodes.values()):
        return f"changes the graph that it reads, {trial}; a rule returns new definitions"
    if edits is not None and {name: node.key for name, node in edits.items()} != _again(
        shop.rule, site
    ):
        return f"gives other definitions when it is applied again, {trial}"
    return ""


def _again(rule: Rewrite, site: Site) -> dict[str, bytes]:
    try:
        return {name: node.key for name, node in rule.rewrite(site).items()}
    except Exception:  # the rule is somebody's code, and it is on trial
        return {}


def _whole(nodes: Iterable[Node]) -> bool:
    """Return whether every node still is what its key says: frozen values can be forced."""
    return all(replace(node).key == node.key for node in topological(list(nodes)))
