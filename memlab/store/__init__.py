"""Samples in one SQLite file."""

from .database import StoreError
from .rows import PointRow, RunRow, SampleRow, SessionRow
from .store import Store, UnknownRun, default_path

__all__ = [
    "PointRow",
    "RunRow",
    "SampleRow",
    "SessionRow",
    "Store",
    "StoreError",
    "UnknownRun",
    "default_path",
]
