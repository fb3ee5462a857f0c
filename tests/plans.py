"""Plans that a test writes, and the verdicts on them."""

from __future__ import annotations

from pathlib import Path

from lastbit.lint import lint_plans
from lastbit.result import Step


def steps_of(
    folder: Path, graph: str, symbols: str, *transforms: str, branch: bool = False
) -> list[Step]:
    """Return the verdicts on transforms of a graph.

    Args:
        folder: where the plan is written.
        graph: the statements.
        symbols: the sizes, as in `M = [1, 64], K = 8`; where M is a range, it counts the rows.
        transforms: the lines of each transform.
        branch: whether each transform applies to the graph as it stands.
    """
    batch = 'batch = "M"\n' if "M = [" in symbols else ""
    end = "\nbranch = true\n" if branch else "\n"
    listed = "".join(f"[[transform]]\n{transform}{end}" for transform in transforms)
    path = folder / "plan.toml"
    path.write_text(
        f'schema = 1\n[graph]\nname = "g"\nsymbols = {{ {symbols} }}\n{batch}'
        f"text = '''\n{graph}\n'''\n{listed}",
        encoding="utf-8",
    )
    return list(lint_plans([str(path)]).steps)
