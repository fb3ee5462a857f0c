"""Find rules: one in each file of the package `lastbit.rules`, by scanning it.

Rules of a user's own package are found through the entry point group `lastbit.rules`: each entry
names a package, which is scanned in the same way. Files whose names begin with an underscore hold
no rule.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lastbit.errors import InputError, LastbitError, Problem, did_you_mean
from lastbit.rule import Rewrite

OURS = "lastbit.rules"
GROUP = "lastbit.rules"  # of entry points


class NoRulesError(LastbitError):
    """The installation holds no rules."""

    def __init__(self) -> None:
        super().__init__("no rules found; the installation is broken and nothing was checked.")


class RuleFileError(LastbitError):
    """A file of a package of rules does not hold a rule.

    Attributes:
        file: the file, or the package where there is none.
        distribution: whose it is.
        reason: what is wrong with it.
    """

    def __init__(self, file: str, distribution: str, reason: str) -> None:
        self.file, self.distribution, self.reason = file, distribution, reason
        super().__init__(
            f"rule file {file!r} of {distribution}: {reason}. See CONTRIBUTING, `add a rule`."
        )


@dataclass(frozen=True, slots=True)
class Package:
    """A package of rules.

    Attributes:
        name: the name by which it is imported.
        distribution: what installed it, for messages.
    """

    name: str
    distribution: str


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A file that holds a rule.

    Attributes:
        package: its package.
        module: the name of the module in it.
        path: the file.
        rule: the rule.
    """

    package: Package
    module: str
    path: str
    rule: Rewrite

    def __str__(self) -> str:
        return f"{self.rule.code} {self.rule.name} in {self.path!r} of {self.package.distribution}"


def load_rules(package: str | None = None) -> Mapping[str, Rewrite]:
    """Return rules by code, in the order of their codes.

    Args:
        package: the package that is scanned; None: lastbit's own, and every package that an entry
            point of the group `lastbit.rules` names.

    Raises:
        NoRulesError: there is none.
        RuleFileError: a file holds no rule, or two files the same code or name.
    """
    packages = (*_packages(),) if package is None else (Package(package, package),)
    return {file.rule.code: file.rule for file in _files(packages)}


@lru_cache(maxsize=8)
def _files(packages: tuple[Package, ...]) -> tuple[RuleFile, ...]:
    files: list[RuleFile] = []
    words: dict[str, RuleFile] = {}
    for package in packages:
        found = list(_scanned(package))
        if not found and package.name != OURS:
            raise RuleFileError(package.name, package.distribution, "the package holds no rules")
        for file in found:
            for word in (file.rule.code, file.rule.name):
                if word in words:
                    reason = f"{word!r} is taken by {words[word]}"
                    raise RuleFileError(file.path, package.distribution, reason)
            words |= {file.rule.code: file, file.rule.name: file}
            files.append(file)
    if not files:
        raise NoRulesError
    return tuple(sorted(files, key=lambda file: file.rule.code))


def _packages() -> Iterator[Package]:
    """Yield lastbit's own package, then those that are plugged in, by name."""
    from importlib.metadata import entry_points

    yield Package(OURS, "lastbit")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.value, entry.name)):
        name = "an unknown distribution" if entry.dist is None else entry.dist.name
        yield Package(entry.value, name)


def _modules(package: Package) -> Iterator[str]:
    """Yield the names of the modules of a package that hold rules, sorted.

    Raises:
        RuleFileError: there is no such package.
    """
    try:
        root = importlib.import_module(package.name)
        paths = root.__path__
    except (Exception, SystemExit) as error:  # whatever a package of somebody else raises
        reason = f"it is no package that can be imported ({_told(error)})"
        raise RuleFileError(package.name, package.distribution, reason) from error
    for info in sorted(pkgutil.iter_modules(paths), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield info.name


def _scanned(package: Package) -> Iterator[RuleFile]:
    for name in _modules(package):
        yield _read(package, name)


def _read(package: Package, name: str) -> RuleFile:
    """Return the rule of a module.

    Raises:
        RuleFileError: the module cannot be imported, or holds no rule, or one of another code.
    """
    path = str(Path(*package.name.split("."), f"{name}.py"))
    try:
        module = importlib.import_module(f"{package.name}.{name}")
    except (Exception, SystemExit) as error:  # whatever a file of somebody else raises
        reason = f"it cannot be imported ({_told(error)})"
        raise RuleFileError(path, package.distribution, reason) from error
    path = getattr(module, "__file__", None) or path
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rewrite):
        raise RuleFileError(path, package.distribution, "it has no RULE")
    if rule.code.lower() != name.split("_", 1)[0]:
        reason = f"its rule has the code {rule.code}; the file is named after the code"
        raise RuleFileError(path, package.distribution, reason)
    return RuleFile(package, name, path, rule)


def _told(error: Exception | SystemExit) -> str:
    if isinstance(error, SystemExit):
        return "it asks Python to exit"
    return f"{type(error).__name__}: {str(error).rstrip('.')}"


def blame(rule: Rewrite, error: Exception, doing: str) -> None:
    """Name the file of a rule, a function of which raised an error; return if it is lastbit's own.

    Args:
        rule: the rule.
        error: what it raised.
        doing: what the function does: `finds dangers`.

    Raises:
        RuleFileError: the rule is that of a package of somebody else.
    """
    for file in _files((*_packages(),)):
        if file.rule is rule and file.package.name != OURS:
            reason = f"{rule.code} {rule.name} raises {_told(error)}, where it {doing}"
            raise RuleFileError(file.path, file.package.distribution, reason) from error


def find_rule(name: str) -> Rewrite:
    """Return the rule with a code or a name.

    A rule of lastbit's own is found by its code without reading another file.

    Raises:
        InputError: there is none; the text names the nearest.
        RuleFileError: a file holds no rule, or two files the same code or name.
    """
    ours = Package(OURS, "lastbit")
    for module in _modules(ours):
        if module.split("_", 1)[0] == name.lower():
            return _read(ours, module).rule
    rules = load_rules()
    for rule in rules.values():
        if name in (rule.name, rule.code, rule.code.lower()):
            return rule
    names = {word for rule in rules.values() for word in (rule.name, rule.code)}
    raise InputError([Problem(f"unknown rule {name!r}", did_you_mean(name, names))])
