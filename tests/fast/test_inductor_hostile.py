"""A damaged or hostile debug folder gives one clear error, runs nothing, and stays in bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from inductor_folders import debug_folder

from lastbit.errors import InputError
from lastbit.importers.inductor import folder as folders
from lastbit.lint import lint_plans

PROVENANCE = folders.PROVENANCE


def _error(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        lint_plans([str(folder)])
    assert len(caught.value.problems) == 1
    return str(caught.value)


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _cut(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


def _drop(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


READABLE, TRANSFORMED, FUSED = folders.READABLE, folders.TRANSFORMED, folders.FUSED
DEEP = "class g:\n def forward(self):\n  a = " + "(" * 5000


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_drop(READABLE), "no folder in it holds fx_graph_readable.py"),
        (_drop(FUSED, PROVENANCE), "holds neither ir_post_fusion.txt nor which nodes"),
        (_write(READABLE, ""), "it holds no class with a method `forward`"),
        (_write(READABLE, "class g:\n def forward("), "this is no Python"),
        (_write(READABLE, DEEP), "this is no Python: too many nested parentheses"),
        (_write(READABLE, "x" * 200_000), "a line has more than 100000 characters"),
        (_write(READABLE, "#\n" * 5_000_000), "it has more than 8388608 characters"),
        (_cut(READABLE, "bf16[64, 64]", "bf99[64, 64]"), "the type 'bf99' is not known"),
        (_cut(READABLE, "bf16[64, 64]", "bf16[open, 64)]"), "a size is"),
        (_cut(READABLE, "(arg0_1, arg1_1)", "(arg0_1, gone)"), "reads `gone`"),
        (_cut(READABLE, "return (add_1,)", "return (other,)"), "returns `other`"),
        (_cut(READABLE, "(arg0_1, arg1_1)", "(arg0_1, 'a', [[1]], arg1_1)"), ""),
        (_cut(TRANSFORMED, "return (add_1,)", "return (add, add_1,)"), "it returns 2 results"),
        (_write(PROVENANCE, "{"), "this is no JSON"),
        (_write(PROVENANCE, "[" * 100_000), "this is no JSON"),
        (_write(PROVENANCE, '{"cppCodeToPost": {"k": 1}}'), "gives no list of nodes"),
        (_write(FUSED, "nothing"), "it holds no operation"),
        (_cut(FUSED, "ops.add(load, load_1)", "ops.add(load, ("), "a loop body is no Python"),
        (_cut(FUSED, "ops.add(load, load_1)", "ops.getitem()"), "its files do not fit together"),
    ],
)
def test_damage_gives_one_error_or_a_report(
    change: Callable[[Path], None], text: str, tmp_path: Path
) -> None:
    folder = debug_folder("three", tmp_path)
    change(folder)
    if text:
        assert text in _error(folder)
    else:  # what is not understood is opaque, or assumed, and said
        assert lint_plans([str(folder)]).findings


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    outside = tmp_path / "outside"
    (folder / FUSED).rename(outside)
    (folder / FUSED).symlink_to(outside)
    assert "this is a link" in _error(folder)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    (folder / FUSED).unlink()
    os.mkfifo(folder / FUSED)
    assert "this is no regular file" in _error(folder)


def test_a_file_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    with open(folder / PROVENANCE, "wb") as stream:
        stream.truncate(2**40)  # sparse: a terabyte
    assert f"it has more than {folders.MOST_BYTES} bytes" in _error(folder)


def test_nothing_in_a_folder_is_run(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    mark = tmp_path / "run"
    line = f"\nopen({str(mark)!r}, 'w')\n"
    for name in (READABLE, TRANSFORMED, folders.RUNNABLE):
        (folder / name).write_text((folder / name).read_text() + line)
    (folder / folders.OUTPUT).write_text(line)
    lint_plans([str(folder)])
    assert not mark.exists()


def test_a_folder_with_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_ENTRIES", 3)
    assert "there are more than 3 files in it" in _error(debug_folder("three", tmp_path))


def test_a_long_chain_of_views_takes_no_long_time(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    (folder / TRANSFORMED).unlink()
    (folder / FUSED).unlink()
    lines = ["class g:", '    def forward(self, a: "bf16[8]"):', '        v0: "bf16[8]" = a.b(a)']
    lines[2] = '        v0: "bf16[8]" = torch.ops.aten.neg.default(a)'
    for i in range(1, 3000):
        lines.append(f'        v{i}: "bf16[8]" = torch.ops.aten.view.default(v{i - 1}, [8])')
    lines.append("        return (v2999,)")
    (folder / READABLE).write_text("\n".join(lines))
    assert lint_plans([str(folder)]).steps == ()
