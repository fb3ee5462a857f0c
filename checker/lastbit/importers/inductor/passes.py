"""Record the graph before and after each of Inductor's passes, while a function is compiled.

Inductor runs its passes through one class of torch, `GraphTransformObserver`, whose two methods are
wrapped while it compiles. A graph is printed when it has changed; what changed between two passes
that are run so is put down to what stands between them. Graphs before autograd hold torch's own
functions, so both sides of such a pass are traced to the operators of the later graphs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lastbit.importers.inductor.callers import callers_of

KINDS = {
    "pre_grad_passes": "pre-grad",
    "joint_graph_passes": "joint",
    "post_grad_passes": "post-grad",
}
Trace = Callable[[Any], str | None]
METHODS = ("apply_graph_pass", "apply_gm_pass")


@dataclass(frozen=True, slots=True)
class Stage:
    """A graph that a pass left.

    Attributes:
        name: of the pass, as a report names it: "the post-grad pass `pass_pattern_1`".
        text: the graph, as torch.fx prints it.
    """

    name: str
    text: str


@dataclass(slots=True)
class Chain:
    """What the passes of one kind made of one graph.

    Attributes:
        kind: "pre-grad", "joint" or "post-grad".
        first: the graph before the passes, as torch.fx prints it.
        stages: the graphs that differ from the one before.
        callers: by node of the first graph, its module and the line that calls its own.
    """

    kind: str
    first: str
    stages: list[Stage] = field(default_factory=list)
    callers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Passes:
    """The passes that ran.

    Attributes:
        chains: in the order in which they began.
        missing: what was not recorded, and why, a sentence each.
    """

    chains: list[Chain] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    # By kind and identity of a graph: the graph, so that it stays, its text, and its chain.
    _seen: dict[tuple[str, int], tuple[Any, str, Chain]] = field(default_factory=dict)

    def of(self, kind: str, start: int = 0) -> list[Chain]:
        """Return the chains of a kind that began after a number of chains."""
        return [one for one in self.chains[start:] if one.kind == kind]

    def saw(self, module: Any, kind: str, name: str, before: bool, trace: Trace) -> None:
        """Take down a graph if it is not the one that was seen last.

        Args:
            module: the graph.
            kind: of the passes that run.
            name: of the pass.
            before: whether the pass has not run yet.
            trace: prints a graph of torch's own functions; None: it cannot.
        """
        signature = _signature(module)
        known = self._seen.get((kind, id(module)))
        if known is not None and known[1] == signature:
            return
        text = trace(module) if kind == "pre-grad" else _printed(module)
        callers = callers_of(module) if known is None else {}
        chain = Chain(kind, text or "", callers=callers) if known is None else known[2]
        if known is None:
            self.chains.append(chain)
        elif not text or not chain.first:
            self.missing.append(f"the graphs around the {kind} pass `{name}` could not be traced")
        else:
            where = f"what Inductor does before the {kind} pass" if before else f"the {kind} pass"
            chain.stages.append(Stage(f"{where} `{name}`", text))
        self._seen[kind, id(module)] = module, signature, chain


@contextlib.contextmanager
def recorded(torch: Any, inputs: Callable[[], Any] = lambda: None) -> Iterator[Passes]:
    """Record the passes that run.

    Args:
        torch: the module.
        inputs: returns the example inputs of the graph that is compiled, for tracing; None where
            there are none.
    """
    found = Passes()
    try:
        from torch.fx.passes.graph_transform_observer import GraphTransformObserver as Observer

        plain = {name: getattr(Observer, name) for name in METHODS}
    except (ImportError, AttributeError):
        found.missing.append(f"torch {torch.__version__} shows no single passes of Inductor")
        yield found
        return

    def trace(module: Any) -> str | None:
        return _traced(torch, module, inputs())

    def wrapped(method: Any) -> Any:
        def apply(self: Any, run: Any) -> Any:
            kind = KINDS.get(getattr(self, "subsystem", None) or "")
            module, name = getattr(self, "gm", None), getattr(self, "passname", "?")
            if kind is None or module is None:
                return method(self, run)
            found.saw(module, kind, name, True, trace)
            result = method(self, run)
            found.saw(module, kind, name, False, trace)
            return result

        return apply

    for name, method in plain.items():
        setattr(Observer, name, wrapped(method))
    try:
        yield found
    finally:
        for name, method in plain.items():
            setattr(Observer, name, method)


def _signature(module: Any) -> str:
    """Return a text that is equal for graphs that compute the same in the same words."""
    return "\n".join(
        f"{node.name} {node.target} {node.args} {node.kwargs}" for node in module.graph.nodes
    )


def _printed(module: Any) -> str:
    """Return a graph as torch.fx prints it, its inputs one beside the other."""
    from torch.fx.graph import CodeGen

    plain = copy.copy(module)  # the nodes are shared: their types are read from them
    graph = copy.copy(module.graph)
    graph._codegen = CodeGen()
    plain._graph = graph
    return str(plain.print_readable(print_output=False))


def _traced(torch: Any, module: Any, inputs: Any) -> str | None:
    """Return a graph of torch's own functions in the operators of the later graphs, printed."""
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    if inputs is None:
        return None
    try:
        with torch.no_grad():
            functional = torch.func.functionalize(copy.deepcopy(module))
            made = make_fx(functional, select_decomp_table(), tracing_mode="fake")(*inputs)
            made.graph.eliminate_dead_code()
        return _printed(made)
    except Exception:  # a pass that cannot be traced is said to be so, and stops nothing
        return None
