"""How large a file of this process may be, in words: RLIMIT_FSIZE, which write(2) names EFBIG and
SQLite an I/O error."""

from __future__ import annotations

import resource

from memlab.text import units


def words(beyond_bytes: int = 0) -> str:
    """The limit and what raises it; empty if there is none, or none that is below this length."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY or 0 < beyond_bytes <= limit:
        return ""
    return f"RLIMIT_FSIZE is {units.format_quantity(limit, 'B')}: raise it (ulimit -f, LimitFSIZE=)"
