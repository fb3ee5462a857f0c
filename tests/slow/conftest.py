"""Fixtures that several files use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from public_cases import Case, Lint


@pytest.fixture
def lint(tmp_path: Path) -> Lint:
    """Return a function that writes a plan and lints it."""
    from public_cases import Case

    from lastbit.lint import lint_plans

    def linted(
        graph: str,
        *transforms: str,
        symbols: str = "",
        batch: str = "",
        inputs: str = "",
        after: str = "",
    ) -> Case:
        path = tmp_path / f"plan{len(list(tmp_path.iterdir()))}.toml"
        rows = f'batch = "{batch}"\n' if batch else ""
        texts = [
            f'schema = 1\n[graph]\nname = "case"\nsymbols = {{ {symbols} }}\n{rows}',
            f"text = '''\n{graph}\n'''\n",
            f"[inputs]\n{inputs}\n" if inputs else "",
            *(f"[[transform]]\n{given}\nbranch = true\n" for given in transforms),
            f"[after]\ntext = '''\n{after}\n'''\n" if after else "",
        ]
        path.write_text("".join(texts), encoding="utf-8")
        return Case(path, lint_plans([str(path)]))

    return linted
