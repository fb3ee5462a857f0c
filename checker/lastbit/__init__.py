"""Say what a change to an operator graph does to its numbers, before it is deployed.

The names below are the public interface; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbit.asserting.functions import assert_batch_invariant as assert_batch_invariant
    from lastbit.asserting.functions import assert_deterministic as assert_deterministic
    from lastbit.asserting.refusing import RefusedComparisonError as RefusedComparisonError
    from lastbit.asserting.tensors import assert_bitwise as assert_bitwise
    from lastbit.asserting.tensors import assert_ulp as assert_ulp
    from lastbit.change import Change as Change
    from lastbit.checking import CheckResult as CheckResult
    from lastbit.checking import check as check
    from lastbit.comparing import compare as compare
    from lastbit.formats import FORMATS as FORMATS
    from lastbit.formats import Format as Format
    from lastbit.formats import bits_text as bits_text
    from lastbit.formats import decode as decode
    from lastbit.formats import encode as encode
    from lastbit.formats import format_of as format_of
    from lastbit.inference.finding import infer as infer
    from lastbit.inference.products import infer_matmul as infer_matmul
    from lastbit.inference.records import Inferred as Inferred
    from lastbit.lint import lint_plans as lint_plans
    from lastbit.order import NoTreeError as NoTreeError
    from lastbit.order import Order as Order
    from lastbit.order import reveal_order as reveal_order
    from lastbit.orders import merge_orders as merge_orders
    from lastbit.predicting import predict_matmul as predict_matmul
    from lastbit.registry import find_rule as find_rule
    from lastbit.registry import load_rules as load_rules
    from lastbit.replaying import replay as replay
    from lastbit.result import Result as Result
    from lastbit.result import read_result as read_result
    from lastbit.rounding import Mode as Mode
    from lastbit.rounding import Rounding as Rounding
    from lastbit.rounding import round_exact as round_exact
    from lastbit.run import run_bits as run_bits
    from lastbit.run import run_graph as run_graph
    from lastbit.schedule import parse_schedule as parse_schedule
    from lastbit.steps import step_graphs as step_graphs
    from lastbit.text import parse_program as parse_program
    from lastbit.tracing.spec import Spec as Spec
    from lastbit.tracing.tensor import Tensor as Tensor
    from lastbit.tracing.tensor import named as named
    from lastbit.tracing.tensor import opaque as opaque
    from lastbit.ulps import ulp as ulp
    from lastbit.ulps import ulp_distance as ulp_distance

__version__ = "0.1.0"

_HOMES = {
    "asserting.functions": ("assert_batch_invariant", "assert_deterministic"),
    "asserting.refusing": ("RefusedComparisonError",),
    "asserting.tensors": ("assert_bitwise", "assert_ulp"),
    "change": ("Change",),
    "checking": ("CheckResult", "check"),
    "comparing": ("compare",),
    "formats": ("FORMATS", "Format", "bits_text", "decode", "encode", "format_of"),
    "inference.finding": ("infer",),
    "inference.products": ("infer_matmul",),
    "inference.records": ("Inferred",),
    "lint": ("lint_plans",),
    "order": ("NoTreeError", "Order", "reveal_order"),
    "orders": ("merge_orders",),
    "predicting": ("predict_matmul",),
    "registry": ("find_rule", "load_rules"),
    "replaying": ("replay",),
    "result": ("Result", "read_result"),
    "rounding": ("Mode", "Rounding", "round_exact"),
    "run": ("run_bits", "run_graph"),
    "schedule": ("parse_schedule",),
    "steps": ("step_graphs",),
    "text": ("parse_program",),
    "tracing.spec": ("Spec",),
    "tracing.tensor": ("Tensor", "named", "opaque"),
    "ulps": ("ulp", "ulp_distance"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """Import a public name from its module; operators, formats and named reals too."""
    if name in _HOME:
        return getattr(import_module(f"lastbit.{_HOME[name]}"), name)
    found = None if name.startswith("_") else import_module("lastbit.tracing.vocabulary").word(name)
    if found is None:
        raise AttributeError(f"module 'lastbit' has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *import_module("lastbit.tracing.vocabulary").WORDS})
