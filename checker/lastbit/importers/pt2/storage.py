"""Which values of a graph lie in one storage, and which operators write to it.

A write changes every value that lies in the storage. Values that are the same elements get the
new value; what other views of it hold afterwards is known by the write's name only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lastbit.errors import Place
from lastbit.importers.imported import Value

MOST_ALIASES = 10_000  # names of one storage

# Operators of aten whose result may be the storage of an argument. Source: the alias annotations
# of torch 2.13's schemas, and what is composed of such operators without one.
_VIEWS = frozenset((
    "_autocast_to_full_precision", "_autocast_to_reduced_precision", "_conj", "_fw_primal",
    "_neg_view", "_reshape_alias", "_sparse_broadcast_to", "_unsafe_view", "adjoint", "alias",
    "alpha_dropout", "as_strided", "as_strided_", "atleast_1d", "atleast_2d", "atleast_3d",
    "broadcast_in_dim", "broadcast_tensors", "broadcast_to", "chunk", "collapse_view", "conj",
    "contiguous", "cpu", "cuda", "data", "detach", "detach_", "diagonal", "dropout", "dsplit",
    "einsum", "expand", "expand_as", "feature_alpha_dropout", "feature_dropout", "flatten",
    "hsplit", "imag", "lift_fresh", "linalg_diagonal", "mH", "mT", "matrix_H", "meshgrid",
    "moveaxis", "movedim", "narrow", "numpy_T", "permute", "pin_memory", "positive", "ravel",
    "real", "requires_grad_", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "select",
    "slice", "split", "split_dim", "split_with_sizes", "squeeze", "squeeze_", "sum_to_size",
    "swapaxes", "swapaxes_", "swapdims", "swapdims_", "t", "t_", "tensor_split", "to",
    "transpose", "transpose_", "type_as", "unbind", "unflatten", "unfold", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "unsqueeze_", "values", "view",
    "view_as", "view_as_complex", "view_as_real", "view_of", "view_of_dtype", "vsplit",
))  # fmt: skip
_WHOLE = frozenset(("alias", "detach", "detach_", "lift_fresh", "requires_grad_"))
_BY_NUMBER = frozenset(("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid"))
# What operators write to beside their results. Source: the alias annotations of torch 2.13's
# schemas, and aten/src/ATen/native/Normalization.cpp for those that have none.
_STATISTICS = ("running_mean", "running_var")
_OBSERVED = ("running_min", "running_max", "scale", "zero_point")
_WRITES = {
    "_batch_norm_with_update": _STATISTICS,
    "fused_moving_avg_obs_fake_quant": _OBSERVED,
    "_fused_moving_avg_obs_fq_helper": _OBSERVED,
    "rrelu_with_noise": ("noise",),
    "rrelu_with_noise_": ("self", "noise"),
}
_IN_TRAINING = {
    "batch_norm": _STATISTICS,
    "native_batch_norm": _STATISTICS,
    "_native_batch_norm_legit": _STATISTICS,
    "_batch_norm_impl_index": _STATISTICS,
    "cudnn_batch_norm": _STATISTICS,
    "miopen_batch_norm": _STATISTICS,
    "instance_norm": _STATISTICS,
}
TRAINING = ("training", "train", "use_input_stats")  # arguments that say so
_OPERATOR_SIGNS = ("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__")


@dataclass(frozen=True, slots=True)
class Write:
    """A node that writes to a storage.

    Attributes:
        operator: as the file names it.
        call: everything that it is given but tensors.
        path: the views that lead from the storage to what it writes to.
        reads: what it writes to, as it was, and its arguments.
        place: the line of the user's source.
        module: the module it belongs to.
    """

    operator: str
    call: str
    path: tuple[str, ...]
    reads: tuple[Value, ...]
    place: Place
    module: str


@dataclass
class Storages:
    """The storage of every value.

    Attributes:
        number: of the storage, by value.
        path: the views that lead to a value from its storage.
        names: the values of each storage.
        waiting: writes that a value has not seen yet.
        count: storages so far.
    """

    number: dict[str, int] = field(default_factory=dict)
    path: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: dict[int, dict[str, None]] = field(default_factory=dict)
    waiting: dict[str, list[Write]] = field(default_factory=dict)
    count: int = 0

    def new(self, name: str) -> None:
        """Give a value a storage of its own."""
        self.count += 1
        self._put(name, self.count, ())

    def view(self, name: str, base: str, how: str = "") -> None:
        """Put a value into the storage of another.

        Args:
            name: the value.
            base: the other.
            how: the view; empty: all elements in their places.
        """
        if base not in self.number:
            self.new(base)
        path = (*self.path[base], how) if how else self.path[base]
        self._put(name, self.number[base], path)

    def _put(self, name: str, number: int, path: tuple[str, ...]) -> None:
        if name in self.number:
            self.names[self.number[name]].pop(name, None)
        self.number[name], self.path[name] = number, path
        self.names.setdefault(number, {})[name] = None
        self.waiting.pop(name, None)

    def made(self, operator: str, call: str, outs: Sequence[str], tensors: Sequence[str]) -> None:
        """Note what the results of an operator lie in."""
        library, _, name = operator.partition(".")
        for number, out in enumerate(outs):
            if library not in ("aten", "prims") or name not in _VIEWS or not tensors:
                self.new(out)
            elif name in _WHOLE:
                self.view(out, tensors[0])
            else:
                base = tensors[min(number, len(tensors) - 1)] if name in _BY_NUMBER else tensors[0]
                self.view(out, base, f"{number} of {call}")

    def wrote(self, name: str, write: Write) -> list[str]:
        """Note a write; return the values that are what is written to, the same elements."""
        if name not in self.number:
            self.new(name)
        same = []
        for other in self.names[self.number[name]]:
            if self.path[other] == write.path:
                self.waiting.pop(other, None)
                same.append(other)
            else:
                self.waiting.setdefault(other, []).append(write)
        return same

    def crowded(self, name: str) -> bool:
        """Return whether more names share a value's storage than are followed."""
        return len(self.names.get(self.number.get(name, 0), ())) > MOST_ALIASES


def written(
    target: str, outs: int, tensors: Sequence[tuple[str, str]], training: bool = False
) -> list[str]:
    """Return the values that an operator writes to.

    Args:
        target: the operator, as torch names it.
        outs: the number of its results.
        tensors: the name of the argument and of the value of each tensor it is given.
        training: whether an argument says that statistics are taken.
    """
    parts = target.removeprefix("torch.ops.").split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    more = (*_WRITES.get(name, ()), *(_IN_TRAINING.get(name, ()) if training else ()))
    if more:
        return [value for argument, value in tensors if argument in more]
    if parts[-1] == "out" or parts[-1].endswith("_out"):
        return [value for argument, value in tensors if argument.startswith("out")]
    if name in _VIEWS:
        return []
    if not outs or (name.startswith("_foreach") and name.endswith("_")):
        return [value for _, value in tensors]
    in_place = (name.endswith("_") and not name.endswith("__")) or name in _OPERATOR_SIGNS
    return [tensors[0][1]] if in_place and tensors else []


def functional(target: str) -> str:
    """Return the operator that computes what an operator in place writes."""
    head, _, overload = target.rpartition(".")
    if head.endswith(_OPERATOR_SIGNS):
        library, _, name = head.rpartition(".")
        return f"{library}.__{name[3:]}.{overload}"
    return f"{head.removesuffix('_')}.{overload}"
