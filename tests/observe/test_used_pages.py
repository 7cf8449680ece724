"""Memory that was used since the accessed bits were cleared, from the text of smaps."""

from __future__ import annotations

from pathlib import Path

from memlab.observe import used_pages
from memlab.observe.used_pages import UsedMemory

KIB = 1024
SMAPS = """\
00400000-00500000 r-xp 00000000 08:01 11 /bin/app
Rss: 400 kB
Pss: 100 kB
Referenced: 200 kB
00600000-00700000 rw-p 00001000 08:01 11 /bin/app
Rss: 8 kB
Pss: 8 kB
Referenced: 4 kB
01000000-02000000 rw-p 00000000 00:00 0 [heap]
Rss: 1000 kB
Pss: 1000 kB
Referenced: 600 kB
7f0000000000-7f0000100000 rw-s 00000000 00:01 12 /memfd:shared (deleted)
Rss: 64 kB
Pss: 32 kB
Referenced: 64 kB
7f0000200000-7f0000300000 rw-s 00000000 08:01 13 /data
Rss: 16 kB
Pss: 16 kB
Referenced: 16 kB
7f0000400000-7f0000500000 r--p 00000000 08:01 14 /idle
Rss: 0 kB
Pss: 0 kB
Referenced: 0 kB
"""


def test_memory_is_anonymous_or_of_files(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/smaps").write_text(SMAPS)
    anonymous, of_files = used_pages.read(7, tmp_path)
    assert anonymous == UsedMemory((8 + 1000 + 64) * KIB, 1040 * KIB, (4 + 600 + 32) * KIB)
    assert of_files == UsedMemory((400 + 16) * KIB, (100 + 16) * KIB, (50 + 16) * KIB)
    used_pages.clear(7, tmp_path)
    assert (tmp_path / "proc/7/clear_refs").read_text() == "1"
