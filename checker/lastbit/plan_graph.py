"""Read the graphs of a plan, and check their shapes at both ends of the ranges of sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lastbit.errors import InputError, LastbitError, Problem, did_you_mean
from lastbit.plan_model import Span
from lastbit.plan_section import Section, shown
from lastbit.plan_values import check_machines, read_span
from lastbit.statement import STATES_SIZES, Statement
from lastbit.text import Program, Reading, read_program
from lastbit.toml_places import Path as KeyPath

if TYPE_CHECKING:
    from lastbit.importers.imported import Imported

_SYMBOL = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORDS = re.compile(r"\w+")


@dataclass
class Graphs:
    """What the tables [graph] and [after] say, as far as they can be understood.

    Attributes:
        name: of the graph.
        program: the statements that are sound.
        after: the second graph, or None.
        symbols: the sizes of each symbol; None where they are not known.
        batch: the symbol that counts rows, or None.
        names: the values of the graph, those of wrong lines included; None: nothing is known.
        imports: the model files that graphs come from.
    """

    name: str
    program: Program = field(default_factory=lambda: Program((), ()))
    after: Program | None = None
    symbols: dict[str, Span | None] = field(default_factory=dict)
    batch: str | None = None
    names: frozenset[str] | None = None
    imports: list[Imported] = field(default_factory=list)

    def knows(self, section: Section, path: KeyPath, name: str, key: bool = False) -> bool:
        """Return whether the graph has a value of this name; report it if not.

        Args:
            section: the table that names it.
            path: where it is named.
            name: of the value.
            key: whether it is a key there.
        """
        if self.names is None or name in self.names:
            return True
        remedy = did_you_mean(name, self.names) if self.names else ""
        section.source.report(path, f"the graph has no value {shown(name)}", remedy, key)
        return False


def read_graphs(root: Section) -> Graphs:
    """Return the graphs of a plan; what is wrong with them is reported."""
    graphs = Graphs(Path(root.source.file).stem)
    graph, after = root.section("graph"), root.section("after")
    root.missing("graph", "Write a table [graph] with a `text`.")
    before = _read_graph(graph, graphs) if graph else None
    if after:
        graphs.after = _read_after(root, after, graphs, before)
    return graphs


def _read_graph(section: Section, graphs: Graphs) -> Reading | None:
    section.only("name", "symbols", "batch", "text", "import")
    graphs.name = section.text("name") or graphs.name
    symbols = section.section("symbols", "`symbols`")
    if symbols:
        for name in symbols.values:
            if not _SYMBOL.fullmatch(name):
                message = f"{shown(name)} cannot name a size"
                symbols.report(name, message, "Write a name such as M.", key=True)
            graphs.symbols[name] = read_span(symbols, name)
    if "import" in section:
        reading = _read_import(section, graphs)
        _read_batch(section, graphs)
        return reading
    guess = symbols is None and ("symbols" in section or "symbols" in section.misspelt)
    reading = _read_text(section, graphs, guess)
    if reading:
        graphs.program, graphs.names = reading.program, reading.names
    _read_batch(section, graphs)
    return reading


def _read_batch(section: Section, graphs: Graphs) -> None:
    if graphs.symbols:
        graphs.batch = section.choice("batch", graphs.symbols, "symbol") or graphs.batch
    elif "batch" in section:
        section.report("batch", "`batch` names a symbol, and there are none", "Add `symbols`.")


def _read_import(section: Section, graphs: Graphs) -> Reading | None:
    """Read the graph of a model file; sizes that the plan gives to symbols go before its own."""
    from lastbit.importers.align import aligned
    from lastbit.importers.load import IMPORTERS, is_model, load_model

    text = section.text("import")
    if text is None:
        return None
    if "text" in section:
        section.report("import", "a graph has a `text` or an `import`, not both", "Keep one.")
        return None
    folder = Path(section.source.file).parent
    path = folder / text
    if not is_model(text):
        message = f"{shown(text)} is no model file"
        section.report("import", message, f"Allowed: {' or '.join(IMPORTERS)}.")
        return None
    if not path.resolve().is_relative_to(folder.resolve()):
        message = f"{shown(text)} lies outside of the plan's folder"
        section.report("import", message, "Put the file beside the plan.")
        return None
    try:
        model = load_model(str(path))
        if graphs.imports:
            model = aligned(graphs.imports[0], model)
    except InputError as error:
        for problem in error.problems:
            where = f"{problem.place}: " if str(problem.place) else ""
            section.report("import", f"{where}{problem.message}", problem.remedy)
        return None
    graphs.imports.append(model)
    for name, span in model.symbols.items():
        graphs.symbols.setdefault(name, span)
    if len(graphs.imports) == 1:
        graphs.program, graphs.batch = model.program, model.batch
        graphs.names = frozenset(st.name for st in model.program.statements)
    names = frozenset(st.name for st in model.program.statements)
    reading = Reading(model.program, (), names)
    section.source.add(*_misfits(model.program, graphs.symbols))
    return reading


def _read_after(
    root: Section, section: Section, graphs: Graphs, before: Reading | None
) -> Program | None:
    """Read the second graph: it reads the same inputs and gives the same results."""
    section.only("text", "import")
    if "transform" in root:
        message = "a plan holds transforms or an `after` graph, not both"
        section.report(None, message, "Keep one of them.")
    if "import" in section and not graphs.imports:
        section.report("import", "[graph] has no `import`", "Import both graphs, or write both.")
        return None
    reading = _read_import(section, graphs) if "import" in section else _read_text(section, graphs)
    if before is None or before.problems or reading is None or reading.problems:
        return None
    if "import" in section:
        from lastbit.plan_imports import common_results

        graphs.program, after = common_results(before.program, reading.program)
        return after
    inputs = {s.name: s for s in before.program.statements if s.expr is None}
    for statement in reading.program.statements:
        if statement.expr is None and not _same_input(statement, inputs.get(statement.name)):
            message = f"`{statement.name}` is not the same input in [graph]"
            section.source.add(statement.problem(message, "Both graphs read the same inputs."))
    for name in before.program.outputs:
        if name not in reading.names:
            message = f"the graph does not give `{name}`, a result of [graph]"
            section.report("text", message, "Both graphs give the same results.")
    return replace(reading.program, outputs=before.program.outputs)


def _same_input(a: Statement, b: Statement | None) -> bool:
    return b is not None and b.expr is None and (a.rounding, a.dims) == (b.rounding, b.dims)


def _read_text(section: Section, graphs: Graphs, guess: bool = False) -> Reading | None:
    """Read the text of a graph.

    Args:
        section: the table that holds it.
        graphs: the symbols.
        guess: whether the symbols are those that the text uses, with unknown sizes.
    """
    if section.missing("text", "Write the statements of the graph, one a line."):
        return None
    text = section.values.get("text")
    if not isinstance(text, str):
        if "text" in section:
            section.refuse("text", "the statements of the graph, one a line")
        return None
    source = section.source
    lines = source.places.string_lines((*section.path, "text"), text.count("\n") + 1)
    known = None if guess else graphs.symbols
    reading = read_program(text, source.file, symbols=known, lines=lines)
    if guess:
        graphs.symbols |= dict.fromkeys(reading.program.symbols)
    source.add(*reading.problems, *_misfits(reading.program, graphs.symbols))
    return reading


def _misfits(program: Program, symbols: dict[str, Span | None]) -> Iterator[Problem]:
    """Yield what does not fit at the largest sizes, and what does not at the smallest only."""
    unknown = {name for name, span in symbols.items() if span is None}
    sound = tuple(s for s in program.statements if not unknown.intersection(_words(s)))
    program = Program(sound, ())
    spans = {name: span for name, span in symbols.items() if span}
    seen = set()
    for problem in program.problems({name: span.high for name, span in spans.items()}):
        seen.add((problem.place.line, problem.place.source))
        yield problem
    ranges = {name: span.low for name, span in spans.items() if not span.fixed}
    at = ", ".join(f"{name} = {size}" for name, size in ranges.items())
    low = {name: span.low for name, span in spans.items()}
    for problem in program.problems(low) if ranges else ():
        if (problem.place.line, problem.place.source) not in seen:
            message = problem.message.rstrip(".")
            if not STATES_SIZES.search(message):  # an expression says its sizes itself
                message = f"{message} at {at}"
            yield replace(problem, message=message)
    for statement in sound:
        if statement.schedule is not None:
            try:
                check_machines(statement.schedule)
            except LastbitError as error:
                yield statement.problem(str(error))


def _words(statement: Statement) -> list[str]:
    return _WORDS.findall(statement.place.source.split("#", 1)[0])
