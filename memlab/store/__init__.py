"""Samples in one SQLite file."""

from memlab.errors import StoreError, UnknownRun

from .database import FORMAT
from .rows import Listed, PointRow, RunRow, SampleRow, SessionRow
from .store import Store, default_path

__all__ = [
    "FORMAT",
    "Listed",
    "PointRow",
    "RunRow",
    "SampleRow",
    "SessionRow",
    "Store",
    "StoreError",
    "UnknownRun",
    "default_path",
]
