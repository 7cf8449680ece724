"""For who makes a release: `python -m memlab.recorded RUN...` packs stored runs as those that ship
with memlab. A run that is named EXPERIMENT-v2 is that of cgroup v2."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from memlab.files import output
from memlab.recorded import FOLDER, OF_V2
from memlab.store import Store, database, default_path

# What tells of a machine's owner and nothing of its speed.
_PRIVATE = ("kernel_command_line", "host_name", "boot_id")
_TABLES = {"runs": "id", "points": "run", "sessions": "run", "samples": "run"}


def record(run: str, source: Path) -> Path:
    """Pack a stored run as its experiment's recorded one."""
    with Store(source) as opened:
        row = opened.find(run)
    of_v2 = f"{row.experiment}{OF_V2}"
    plain = FOLDER / f"{of_v2 if row.name == of_v2 else row.experiment}.db"
    plain.unlink(missing_ok=True)
    Store(plain, create=True).close()
    with ExitStack() as closing:
        db = database.opened(plain, False, closing)
        db.execute("ATTACH ? AS source", (str(source),))
        for table, key in _TABLES.items():
            select = f"SELECT * FROM source.{table} WHERE {key} = ?"
            db.execute(f"INSERT INTO {table} {select}", (row.id,))
        environment = {**row.environment, **dict.fromkeys(_PRIVATE, "not kept in a recorded run")}
        name = row.name if row.name == of_v2 else None  # it has its experiment's
        stored = tuple(
            json.dumps(_in_boot(part)) for part in (environment, {**row.request, "name": name})
        )
        db.execute("UPDATE runs SET environment = ?, request = ?, name = ?", (*stored, name))
        database.seal(db, "runs", "id = ?", row.id)
        for point, levels in db.execute("SELECT point, levels FROM points").fetchall():
            known = json.dumps(_in_boot(json.loads(levels)))
            db.execute("UPDATE points SET levels = ? WHERE point = ?", (known, point))
        database.seal(db, "points", "run = ?", row.id)
        db.execute("PRAGMA main.journal_mode = DELETE")  # one file, and the source as it was
    return _packed(plain)


def _in_boot(item: Any, name: str = "") -> Any:
    """The same JSON without the user's folder that a guest's kernel lay in."""
    if isinstance(item, Mapping):
        return {key: _in_boot(value, key) for key, value in item.items()}
    if isinstance(item, list):
        return [_in_boot(part, name) for part in item]
    is_path = name == "kernel" and isinstance(item, str) and item.startswith("/")
    return f"/boot/{Path(item).name}" if is_path else item


def _packed(plain: Path) -> Path:
    packed = plain.with_name(f"{plain.name}.gz")
    output.write({packed: gzip.compress(plain.read_bytes(), mtime=0)})
    plain.unlink()
    return packed


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        print(record(asked, default_path()))
