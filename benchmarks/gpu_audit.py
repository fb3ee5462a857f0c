"""Audit what torch does on a GPU: single operators, run-to-run differences, a layer of Qwen3-8B.

    python benchmarks/gpu_audit.py reports/h200

writes `audit_operators.json` (for each operator of `examples/audit_operators.py` how many results
row 0 has over the batch sizes, where they change, and how many results equal calls have; how often
the operators that add atomically are found in 20 tries) and `audit_qwen3_8b.{json,txt}`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastbit.audit.auditing import Hooks
from lastbit.audit.explaining import explained
from lastbit.audit.records import Audit, CaseRecord, to_json
from lastbit.audit.running import Options, audit, environment
from lastbit.audit.text import render
from lastbit.codec import to_plain
from lastbit.tracing.targets import load_targets

EXAMPLES = Path("examples")
SIZES = (*range(1, 17), *range(24, 257, 8), 257, 384, 512, 768, 1024, 1536, 2048, 4096)
LARGEST = {"mean_rows": 1024, "cumsum_long": 256}  # of memory, and of what is drawn
ATTENTION = 64
TRIES = 20
ATOMIC = ("index_add", "scatter_add", "bincount", "cumsum_long")


def sizes_of(name: str) -> tuple[int, ...]:
    """Return the batch sizes of an operator."""
    largest = ATTENTION if "attention" in name or name == "math" else LARGEST.get(name, 4096)
    return tuple(size for size in SIZES if size <= largest)


def audited(target: str, options: Options, explain: bool = True) -> Audit:
    """Audit one target."""
    (found,) = load_targets(target)
    return audit(target, found, options, Hooks(explain=explained if explain else None))


def main_case(result: Audit) -> CaseRecord:
    """Return the case of the operator itself: the one that breaks something, or the last."""
    return (result.culprits or result.cases)[-1]


def one_operator(name: str) -> dict[str, Any]:
    """Return what was seen of one operator."""
    options = Options(sizes=sizes_of(name), device="cuda", seconds=60, scan=False)
    start = time.monotonic()
    result = audited(f"{EXAMPLES}/audit_operators.py:{name}", options)
    seconds = time.monotonic() - start
    case = main_case(result)
    repeats = case.trial("repeats")
    found = {
        "operator": case.operator,
        "signature": case.key,
        "largest": options.sizes[-1],
        "distinct_of_row_0": case.thresholds.distinct if case.thresholds else None,
        "changes_at": case.thresholds.changes if case.thresholds else None,
        "segments": to_plain(case.thresholds.segments) if case.thresholds else None,
        "distinct_of_repeats": repeats.distinct if repeats else None,
        "repeats": repeats.results if repeats else None,
        "codes": case.codes,
        "cause": to_plain(case.cause),
        "nearer": to_plain(case.nearer),
        "gaps": case.gaps,
    }
    print(
        f"{name:22}  {seconds:4.0f} s  {found['distinct_of_row_0']} results of row 0, "
        f"{found['distinct_of_repeats']} of equal calls  "
        f"{case.cause.text if case.cause else ''}",
        flush=True,
    )
    return found


def tries(name: str) -> int:
    """Return in how many of the tries an operator was found to differ from run to run."""
    options = Options(sizes=(1, 64), device="cuda", scan=False)
    found = 0
    for seed in range(TRIES):
        result = audited(
            f"{EXAMPLES}/audit_operators.py:{name}", replace(options, seed=seed), explain=False
        )
        found += any("DET651" in case.codes for case in result.cases)
    print(f"{name:22}  found in {found} of {TRIES} tries", flush=True)
    return found


def guarded(failed: list[str], name: str, call: Any) -> Any:
    """Return what a call returns; what it raises is printed and kept, and the others go on."""
    try:
        return call(name)
    except Exception as error:  # one operator must not cost the others
        failed.append(f"{name}: {type(error).__name__}: {str(error)[:500]}")
        print(failed[-1], flush=True)
        return None


def layer(name: str, folder: Path, head: dict[str, Any]) -> None:
    """Audit the layer, and write what was found."""
    options = Options(sizes=SIZES, device="cuda", seconds=140, scan=False)
    result = audited(f"{EXAMPLES}/models/{name}", options)
    text = json.dumps(head | to_json(result), indent=1, allow_nan=False)
    (folder / "audit_qwen3_8b.json").write_text(text + "\n")
    (folder / "audit_qwen3_8b.txt").write_text(render(result))
    print(render(result), flush=True)


def main(folder: Path) -> int:
    """Run everything and write the records; return 1 where something could not be run."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("operators", EXAMPLES / "audit_operators.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failed: list[str] = []
    start = time.monotonic()
    head = {
        "command": f"python benchmarks/gpu_audit.py {folder}",
        "environment": environment(0, "cuda"),
        "driver": subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    operators = {name: guarded(failed, name, one_operator) for name in module.OPERATORS}
    document = head | {"sizes": SIZES, "operators": operators, "tries": TRIES}
    print(f"operators: {time.monotonic() - start:.0f} s", flush=True)
    guarded(failed, "qwen3_8b_decode.py:build", lambda name: layer(name, folder, head))
    print(f"with the layer: {time.monotonic() - start:.0f} s", flush=True)
    found = {name: guarded(failed, name, tries) for name in ATOMIC}
    document |= {"found_from_run_to_run": found}
    (folder / "audit_operators.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"in all: {time.monotonic() - start:.0f} s; {len(failed)} failed", *failed, sep="\n  ")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
