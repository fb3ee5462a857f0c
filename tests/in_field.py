"""Programs of one result, evaluated in the field."""

from lastbit.graph import Graph
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.field_values import Residue
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS
from lastbit.text import parse_program
from lastbit.verify.agree import agree

HEAD = "a: f32[3, 8]\nb: f32[3, 8]\nc: bf16[3, 8]\nd: bf16[3, 8]\nu: uint8[3, 8]\n"


def graph(*lines: str) -> Graph:
    """Return a graph that reads a to d and u; the last line is `y`, or an expression of it."""
    *before, last = lines
    text = last if last.startswith("y:") else f"y: real = {last}"
    return parse_program(HEAD + "\n".join([*before, text, "return y"])).bind({})


def said(left: str | tuple[str, ...], right: str | tuple[str, ...], policy: Policy) -> bool:
    """Return whether two expressions, or two texts, agree in the field."""
    pair = [graph(*((text,) if isinstance(text, str) else text)) for text in (left, right)]
    found = agree(*pair, policy)
    assert found.elements > 0 or not found.equal
    return found.equal


def same(left, right, policy=Policy.REAL):
    """Assert that two expressions, or two texts, agree."""
    assert said(left, right, policy), (left, right)


def other(left, right, policy=Policy.REAL):
    """Assert that two expressions, or two texts, do not agree."""
    assert not said(left, right, policy), (left, right)


def drawn(text: str, draw: int = 0, policy: Policy = Policy.REAL) -> Residue:
    """Return the value of an expression in one draw."""
    domain = FieldDomain(FIELDS[draw % len(FIELDS)], draw, compares=True)
    return evaluate(graph(text).results, domain, policy)[0]
