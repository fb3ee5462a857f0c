"""JSON: the document of `reports/report.schema.json`."""

from __future__ import annotations

import json

from lastbit.result import Result, to_json


def render(result: Result) -> str:
    """Return the document, indented; equal results give equal bytes."""
    return json.dumps(to_json(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
