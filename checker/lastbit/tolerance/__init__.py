"""Tolerance audit: which wrong results does a user's own comparison let pass?

Faults are planted in the result of an operation, one at a time, and given to the comparison. Beside
that stands the smallest bound that every legal result keeps to, derived from the number of
roundings.
"""

from __future__ import annotations

from lastbit.tolerance.auditing import audit_tolerance
from lastbit.tolerance.records import ToleranceAudit

__all__ = ["ToleranceAudit", "audit_tolerance"]
