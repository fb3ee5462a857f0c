"""Find rules: one in each file of the package `lastbit.rules`, by scanning it."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections.abc import Mapping
from functools import lru_cache

from lastbit.errors import InputError, LastbitError, Problem, did_you_mean
from lastbit.rule import Rewrite


class NoRulesError(LastbitError):
    """The installation holds no rules."""

    def __init__(self) -> None:
        super().__init__("no rules found; the installation is broken and nothing was checked.")


class RuleFileError(LastbitError):
    """A file of the rules folder does not hold a rule.

    Attributes:
        module: the module's name.
        reason: what is wrong with it.
    """

    def __init__(self, module: str, reason: str) -> None:
        self.module, self.reason = module, reason
        super().__init__(f"rule file {module!r}: {reason}. See CONTRIBUTING, `add a rule`.")


@lru_cache(maxsize=8)
def load_rules(package: str = "lastbit.rules") -> Mapping[str, Rewrite]:
    """Return the rules of a package by code, in the order of their codes.

    Raises:
        NoRulesError: there is none.
        RuleFileError: a file holds no rule, or two files the same code or name.
    """
    root = importlib.import_module(package)
    rules: dict[str, Rewrite] = {}
    for info in sorted(pkgutil.iter_modules(root.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package}.{info.name}")
        rule = getattr(module, "RULE", None)
        if not isinstance(rule, Rewrite):
            raise RuleFileError(info.name, "it has no RULE")
        if rule.code.lower() != info.name.split("_", 1)[0]:
            raise RuleFileError(info.name, f"its rule has the code {rule.code}")
        if rule.code in rules or rule.name in {other.name for other in rules.values()}:
            raise RuleFileError(info.name, f"the code or the name of {rule.code} is taken")
        rules[rule.code] = rule
    if not rules:
        raise NoRulesError
    return dict(sorted(rules.items()))


def _by_code(code: str) -> Rewrite | None:
    """Return the rule whose file is named after a code, without reading the other files."""
    root = importlib.import_module("lastbit.rules")
    for info in pkgutil.iter_modules(root.__path__):
        if info.name.split("_", 1)[0] == code.lower():
            rule = getattr(importlib.import_module(f"lastbit.rules.{info.name}"), "RULE", None)
            return rule if isinstance(rule, Rewrite) and rule.code.lower() == code.lower() else None
    return None


def find_rule(name: str) -> Rewrite:
    """Return the rule with a code or a name.

    Raises:
        InputError: there is none; the text names the nearest.
    """
    if (rule := _by_code(name)) is not None:
        return rule
    rules = load_rules()
    for rule in rules.values():
        if name in (rule.name, rule.code, rule.code.lower()):
            return rule
    names = {word for rule in rules.values() for word in (rule.name, rule.code)}
    raise InputError([Problem(f"unknown rule {name!r}", did_you_mean(name, names))])


def explain(name: str) -> str:
    """Return what a rule means: its prose, claim, parameters, requirements, and its two graphs.

    Raises:
        InputError: there is no rule of that code or name.
    """
    rule = find_rule(name)
    lines = [rule.prose.strip(), "", f"Claim: {rule.claim}"]
    if rule.parameters:
        lines += ["", "Parameters:"]
        for parameter in rule.parameters:
            given = "" if parameter.default is None else f" (default {parameter.default})"
            lines.append(f"  {parameter.name}: {parameter.meaning}{given}")
    if rule.requires:
        lines += ["", "Requires:", *(f"  {require.text}" for require in rule.requires)]
    graph = textwrap.indent(textwrap.dedent(rule.graph).strip(), "  ")
    lines += ["", f"Before, at {', '.join(rule.at)}:", graph]
    return "\n".join(lines) + "\n"
