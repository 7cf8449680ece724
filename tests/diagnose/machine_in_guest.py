"""Run in a guest: three looks at its machine, as they are, with 64 huge pages in their pool, and
with 200 MiB of anonymous shared memory."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

from memlab.diagnose import machine, machine_account

SHARED_BYTES = 200 << 20


def look() -> dict[str, object]:
    seen = machine.at(0.1)
    whole = machine_account.of(seen)
    return {
        "total": whole.total,
        "rest": whole.rest,
        "lines": {line.name: line.value for line in whole.lines},
        "findings": [one.name for one in machine_account.findings(seen)],
    }


def main() -> None:
    looks = [look()]
    Path("/proc/sys/vm/nr_hugepages").write_text("64", encoding="ascii")
    looks.append(look())
    with mmap.mmap(-1, SHARED_BYTES) as shared:
        for at in range(0, SHARED_BYTES, mmap.PAGESIZE):
            shared[at] = 1
        looks.append(look())
    print("seen:", json.dumps(looks))


if __name__ == "__main__":
    main()
