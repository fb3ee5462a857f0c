"""Compile a function with Inductor, and keep what it did: graphs, kernels, and values of a run.

torch is imported here. The debug folder goes into a temporary folder, which is read as any other.
What Inductor wrote is run a second time, by `rerun`.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastbit.errors import InputError, Problem
from lastbit.importers.inductor.folder import READABLE, GraphFolder
from lastbit.importers.inductor.passes import Chain, Passes, recorded
from lastbit.importers.inductor.rerun import copied, kept_run
from lastbit.importers.torch_calls import Target, load_torch
from lastbit.tracing.calls import raised_in_file


@dataclass(slots=True)
class CapturedGraph:
    """One graph that Inductor compiled.

    Attributes:
        folder: its debug folder.
        eager: by node, the value when the graph is run operator by operator.
        buffers: by buffer, the value that a kernel left in it.
        differs: whether the second run of the kernels gave other results than the first.
        passes: what Inductor's passes after autograd made of it; None: that was not recorded.
    """

    folder: GraphFolder
    eager: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Any] = field(default_factory=dict)
    differs: bool = False
    passes: Chain | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """What was compiled.

    Attributes:
        graphs: in the order of compilation: forward, then backward.
        eager: the results of the function itself, gradients behind them.
        compiled: those of the compiled function.
        chains: what Inductor's passes made of the graphs before they were divided into forward and
            backward, where a pass changed one.
        missing: what of the passes was not recorded, and why.
    """

    graphs: tuple[CapturedGraph, ...]
    eager: tuple[Any, ...]
    compiled: tuple[Any, ...]
    chains: tuple[Chain, ...] = ()
    missing: tuple[str, ...] = ()


@contextlib.contextmanager
def captured(target: Target, emulate: bool | None = None) -> Iterator[Captured]:
    """Compile and run a target, and give what was seen while the debug folder exists.

    Args:
        target: the function and its inputs.
        emulate: sets `emulate_precision_casts`; None: as torch is configured.

    Raises:
        InputError: torch or a compiler is missing, or the function cannot be compiled.
    """
    torch = load_torch()
    with tempfile.TemporaryDirectory(prefix="lastbit-inductor-") as folder:
        yield _Capture(torch, target, Path(folder), emulate).run()


class _Capture:
    def __init__(self, torch: Any, target: Target, folder: Path, emulate: bool | None) -> None:
        self.torch, self.target, self.folder, self.emulate = torch, target, folder, emulate
        self.graphs: list[CapturedGraph] = []
        self.passes = Passes()
        self.inputs: Any = None  # of the graph that is compiled

    def run(self) -> Captured:
        torch = self.torch
        from torch._functorch import config as functorch
        from torch._inductor import config

        if shutil.which("g++") is None and shutil.which("clang++") is None:
            raise _error("no C++ compiler is found", "Inductor needs one: install g++.")
        patch: dict[str, Any] = {
            "trace.enabled": True,
            "trace.debug_dir": str(self.folder),
            "trace.provenance_tracking_level": 1,
            "fx_graph_cache": False,
        }
        if self.emulate is not None:
            patch["emulate_precision_casts"] = self.emulate
        try:
            eager = self._called(self.target.call)
        except Exception as error:
            raise raised_in_file(error, self.target.label.rpartition(":")[0]) from error
        torch._dynamo.reset()
        quiet = contextlib.redirect_stdout(io.StringIO())
        record = recorded(torch, lambda: self.inputs)
        with (
            config.patch(patch),
            functorch.patch(enable_autograd_cache=False),
            quiet,
            silent(),
            record as self.passes,
        ):
            try:
                compiled = self._called(torch.compile(self.target.call, backend=self._backend))
            except InputError:
                raise
            except Exception as error:
                text = str(error).strip().partition("\n")[0] or type(error).__name__
                raise _error(f"{self.target.label} cannot be compiled: {text}", "") from error
            finally:
                torch._dynamo.reset()
        if not self.graphs:
            raise _error(f"Inductor compiled no graph of {self.target.label}", "")
        early = [one for kind in ("pre-grad", "joint") for one in self.passes.of(kind)]
        chains = tuple(one for one in early if one.stages)
        return Captured(
            tuple(self.graphs), eager, compiled, chains, tuple(dict.fromkeys(self.passes.missing))
        )

    def _called(self, call: Callable[..., Any]) -> tuple[Any, ...]:
        """Call on copies of the inputs; return results, and gradients where they are wanted."""
        torch = self.torch
        args = [
            arg.detach().clone().requires_grad_(arg.requires_grad)
            if isinstance(arg, torch.Tensor)
            else arg
            for arg in self.target.args
        ]
        with torch.set_grad_enabled(self.target.grad):
            found = _tensors(call(*args), torch)
        if not self.target.grad:
            return tuple(one.detach().clone() for one in found)
        module = self.target.call if isinstance(self.target.call, torch.nn.Module) else None
        leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        leaves += [p for p in module.parameters() if p.requires_grad] if module is not None else []
        reach = [one for one in found if one.requires_grad]
        generator = torch.Generator().manual_seed(0)
        weights = [
            torch.randn(one.shape, generator=generator).to(one.dtype).to(one.device)
            for one in reach
        ]
        grads = torch.autograd.grad(reach, leaves, weights, allow_unused=True)
        return tuple(
            one.detach().clone() for one in (*found, *grads) if isinstance(one, torch.Tensor)
        )

    def _backend(self, graph: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        def inner(module: Any, examples: Any, **keywords: Any) -> Any:
            before = copy.deepcopy(module)
            known = set(_folders(self.folder))
            start = len(self.passes.chains)
            compiled = compile_fx_inner(module, examples, **keywords)
            new = [one for one in _folders(self.folder) if one not in known]
            if len(new) != 1:
                raise _error("Inductor wrote no debug folder for a graph", "")
            shown = f"<{new[0].name.split('.')[0]}>"
            late = self.passes.of("post-grad", start)  # those of a graph inside it come first
            found = CapturedGraph(GraphFolder(new[0], shown), passes=late[-1] if late else None)
            self.graphs.append(found)
            return self._watched(compiled, before, found)

        self.inputs = inputs
        return compile_fx(graph, inputs, inner_compile=inner)

    def _watched(self, compiled: Any, before: Any, found: CapturedGraph) -> Any:
        """Return the compiled graph, which keeps the values of its first call."""
        torch = self.torch

        def call(inputs: list[Any]) -> Any:
            if found.eager:
                return compiled(inputs)
            kept = [copied(one, torch) for one in inputs]
            result = compiled(inputs)
            with torch.no_grad():
                found.eager.update(_node_values(torch, before, kept))
                again, buffers = kept_run(torch, found.folder, kept)
            found.buffers.update(buffers)
            pairs = zip(_tensors(result, torch), _tensors(again, torch), strict=False)
            found.differs = any(not _equal_bits(a, b, torch) for a, b in pairs)
            return result

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _node_values(torch: Any, module: Any, inputs: list[Any]) -> dict[str, Any]:
    """Return the value of each node of a graph that is run operator by operator."""
    found: dict[str, Any] = {}

    class Keeper(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            value = super().run_node(node)
            if isinstance(value, torch.Tensor):
                found[node.name] = value.detach().clone()
            return value

    Keeper(module).run(*[copied(one, torch) for one in inputs])
    return found


def _folders(root: Path) -> list[Path]:
    return sorted(one.parent for one in root.rglob(READABLE))


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep torch from reporting where its debug folders are."""
    names = ("torch._inductor", "torch._inductor.debug", "torch._dynamo")
    loggers = [logging.getLogger(name) for name in names]
    levels = [one.level for one in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)


def _tensors(value: Any, torch: Any) -> list[Any]:
    """Return the tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [found for one in value for found in _tensors(one, torch)]
    return []


def _equal_bits(a: Any, b: Any, torch: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = (one.contiguous().reshape(-1).view(torch.uint8) for one in (a, b))
    return bool(torch.equal(x, y))


def _error(message: str, remedy: str) -> InputError:
    return InputError([Problem(message, remedy)])
