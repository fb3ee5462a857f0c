"""Run the code that Inductor wrote once more, with a line after each kernel that keeps the buffers.

`exec` runs it, and this is why that is safe: the code is `output_code.py` of a folder that this
process made a moment ago, which nobody but its user can write to, and Inductor has just put it
there and run it itself, made of a function that the user asked to have run. A folder that a user
names, as in `lastbit lint DIR`, never comes here: `folder`, `fx` and `loops` parse it, and run
nothing of it.
"""

from __future__ import annotations

import ast
from typing import Any

from lastbit.importers.inductor.folder import OUTPUT, GraphFolder

KEEP = "_lastbit_keep"


def kept_run(torch: Any, folder: GraphFolder, inputs: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Run the code that Inductor wrote, and keep each buffer when a kernel has written it.

    Args:
        torch: the module.
        folder: one that this process had Inductor write; never one that a user names.
        inputs: of the graph.

    Returns:
        the results, and the buffers by name.
    """
    text = folder.text(OUTPUT)
    if text is None:
        return (), {}
    tree = _Keeping().visit(ast.parse(text))
    ast.fix_missing_locations(tree)
    buffers: dict[str, Any] = {}

    def keep(names: tuple[str, ...], values: dict[str, Any]) -> None:
        for name in names:
            value = values.get(name)
            if isinstance(value, tuple | list):
                value = next((one for one in value if isinstance(one, torch.Tensor)), None)
            if isinstance(value, torch.Tensor) and name not in buffers:
                buffers[name] = value.detach().clone()

    space: dict[str, Any] = {"__name__": "lastbit_kernels", KEEP: keep}
    exec(compile(tree, folder.shown, "exec"), space)
    return space["call"]([copied(one, torch) for one in inputs]), buffers


def copied(value: Any, torch: Any) -> Any:
    """Return a copy of a tensor with the strides that it has; anything else as it is.

    Inductor's code asserts strides, and `clone` makes new ones for a part of another tensor.
    """
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if copy.stride() == value.stride():
        return copy
    held = value.detach().untyped_storage().clone()
    empty = torch.empty(0, dtype=value.dtype, device=value.device)
    return empty.set_(held, value.storage_offset(), value.size(), value.stride())


class _Keeping(ast.NodeTransformer):
    """Adds after each launch a line that keeps the buffers named in it."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name in ("call", "_call") or node.name.startswith("partition"):
            node.body = self._kept(node.body)
        return node

    def _kept(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            if isinstance(one, ast.With):
                one.body = self._kept(one.body)
            found.append(one)
            if _is_launch(one):
                names = sorted(
                    {n.id for n in ast.walk(one) if isinstance(n, ast.Name) and n.id[:3] == "buf"}
                )
                found.append(ast.parse(f"{KEEP}({tuple(names)!r}, locals())").body[0])
        return found


def _is_launch(statement: ast.stmt) -> bool:
    """Return whether a line calls a kernel or a library function."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return not ast.unparse(statement.value.func).startswith(("assert_", "args.clear"))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call | ast.Subscript):
        words = ("torch.ops.", "extern_kernels.", "aten.", "buf")
        text = ast.unparse(statement.value)
        return text.startswith(words) and "empty_strided" not in text
    return False
