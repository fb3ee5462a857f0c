"""Read ONNX models: what they compute, with the rounding contract of every operator.

Only `onnx` is needed, and only to parse; ONNX Runtime is needed to run models (`running`).
"""

from __future__ import annotations

import os

from lastbit.importers.imported import Imported

__all__ = ["read_onnx"]


def read_onnx(path: str | os.PathLike[str]) -> Imported:
    """Read an ONNX model; its weights become inputs.

    Raises:
        InputError: it is no ONNX model, or one that cannot be imported; the text says why.
    """
    from lastbit.importers.onnx.graph import Importer
    from lastbit.importers.onnx.reading import read_model

    return Importer(read_model(path)).imported()
