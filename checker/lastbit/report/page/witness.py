"""A witness: its inputs, both results as bits, the program, and the order of its sums."""

from __future__ import annotations

from functools import lru_cache

from lastbit.errors import LastbitError
from lastbit.graph import Graph
from lastbit.interpret.exact import exact_array
from lastbit.report.page.arcs import graphs
from lastbit.report.page.bits import bits_table
from lastbit.report.page.escape import escaped
from lastbit.report.page.layout import scrolled, side_figure
from lastbit.report.page.numbers import exact_text
from lastbit.report.page.sums import differing_sums
from lastbit.report.page.trees import tree_figures
from lastbit.result import Witness, WitnessInput
from lastbit.text import Program, parse_program

MOST_VALUES = 64
_MOST_TEXT = 20_000  # characters of a program that is drawn


def witness_block(witness: Witness, title: str, with_figures: bool) -> str:
    """Return a witness as a block of a card.

    Args:
        witness: the witness.
        title: its heading.
        with_figures: whether the program and the sums are drawn as well.
    """
    reach = ""
    if witness.reachable is not None:
        can = "can" if witness.reachable else "cannot"
        reach = f" The whole program {can} produce these inputs."
    policy = f" It shows under the policy {witness.policy}." if witness.policy else ""
    inputs = "".join(f"<li>{_input(name, x)}" for name, x in witness.inputs.items())
    figures = _figures(witness) if with_figures else ""
    about = f"<p class=dim>{(reach + policy).strip()}</p>" if reach or policy else ""
    return (
        f"<section class=witness><h4>{title}</h4>{about}<ul class=in>{inputs}</ul>"
        f"{scrolled(bits_table(witness), 'Bits')}{figures}</section>"
    )


def _input(name: str, given: WitnessInput) -> str:
    shape = f"[{', '.join(map(str, given.shape))}]" if given.shape else ""
    head = f"{escaped(name)}: {escaped(given.format)}{shape}"
    if len(given.hex) > MOST_VALUES:
        return f"<code>{head}</code>, {len(given.hex):,} values"
    return f"<code>{head} = {_values(given)}</code>"


def _values(given: WitnessInput) -> str:
    texts = [exact_text(value) for value in given.values()]
    if len(given.shape) < 2 or len(texts) == 1:
        return ", ".join(texts)
    columns = given.shape[-1] or 1
    rows = [texts[i : i + columns] for i in range(0, len(texts), columns)]
    if columns == 1:  # a column reads like a row
        return ", ".join(texts)
    return " ; ".join(", ".join(row) for row in rows)


def _figures(witness: Witness) -> str:
    program = witness.program
    if program is None or max(len(program.before), len(program.after)) > _MOST_TEXT:
        return ""
    texts = program.before, program.after
    try:
        sides = parsed(texts[0]), parsed(texts[1])
    except (LastbitError, RecursionError):  # made by another version, or by hand
        return _texts(texts)
    drawn = graphs(*sides, texts) or _texts(texts)
    out = f"<figure class=sides><figcaption>Program</figcaption>{drawn}</figure>"
    trees = _trees(witness, sides)
    if trees:
        caption = "Order of the additions, on these inputs"
        out += f"<figure class=sides><figcaption>{caption}</figcaption>{trees}</figure>"
    return out


@lru_cache(maxsize=256)
def parsed(text: str) -> Program:
    """Return a program of a witness, parsed once.

    Raises:
        InputError: the text is no program.
    """
    return parse_program(text)


def _trees(witness: Witness, sides: tuple[Program, Program]) -> str:
    try:
        before, after = _bound(sides[0]), _bound(sides[1])
        inputs = {
            name: exact_array(given.values(), given.shape) for name, given in witness.inputs.items()
        }
        return "".join(map(tree_figures, differing_sums(before, after, inputs)))
    except (LastbitError, RecursionError, KeyError, ValueError):
        return ""  # inputs that do not suit the program, in a file made by hand


@lru_cache(maxsize=256)
def _bound(program: Program) -> Graph:
    return program.bind({})


def _texts(texts: tuple[str, str]) -> str:
    return "".join(
        side_figure(side, f"<pre>{escaped(text)}</pre>", f"Program {side}")
        for side, text in zip(("before", "after"), texts, strict=True)
    )
