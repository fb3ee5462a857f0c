"""`torch.compile(f, backend="lastbit")`: Inductor's result, and a report of the roundings it drops.

The report goes to stderr when a graph is compiled. What runs afterwards is Inductor's code.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from typing import Any

from lastbit.errors import LastbitError
from lastbit.importers.inductor.capture import silent
from lastbit.importers.inductor.comparing import compare, result_of
from lastbit.importers.inductor.folder import graph_folders
from lastbit.importers.inductor.reading import read_graph_folder


def compile_and_report(graph: Any, inputs: Any, **_: Any) -> Any:
    """Compile a graph with Inductor, and report what kind of change its kernels are.

    Args:
        graph: a `torch.fx.GraphModule`.
        inputs: its example inputs.

    Returns:
        what Inductor compiled.
    """
    with silent():
        from torch._functorch import config as functorch
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(module: Any, examples: Any, **keywords: Any) -> Any:
        with tempfile.TemporaryDirectory(prefix="lastbit-inductor-") as folder:
            patch = {
                "trace.enabled": True,
                "trace.debug_dir": folder,
                "trace.provenance_tracking_level": 1,
                "fx_graph_cache": False,
            }
            with config.patch(patch), silent():
                compiled = compile_fx_inner(module, examples, **keywords)
            sys.stderr.write(_report(folder))
        return compiled

    # A graph from the cache is not compiled, so there would be nothing to report on.
    with functorch.patch(enable_autograd_cache=False), silent():
        return compile_fx(graph, inputs, inner_compile=inner)


def _report(folder: str) -> str:
    """Return the report on a debug folder; what cannot be read is said, and stops nothing."""
    from lastbit.report import renderer

    try:
        compared = [compare(read_graph_folder(one)) for one in graph_folders(folder)]
        result = result_of(compared, "check", 0, date.today())
        return renderer("text")(result).replace(folder, "<inductor>")
    except LastbitError as error:
        return f"lastbit: nothing was checked: {error}\n".replace(folder, "<inductor>")
