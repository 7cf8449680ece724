"""Compile the probes and a feature's C with each compiler that is here, warnings as errors, and run
clang-tidy on the probes: its analyser takes each fixed address and each number read for a fault.

Run by `make check`; a compiler that is missing is said, not passed over in silence.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROBES = sorted(ROOT.glob("probes/**/*.c"))
OF_FEATURES = ("command", "diagnose", "trace")  # the guest's init is of x86-64 alone
SOURCES = [
    *PROBES,
    *(path for name in OF_FEATURES for path in sorted(ROOT.glob(f"memlab/{name}/**/*.c"))),
]
COMMON = ["-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT / 'probes'}"]
WARNINGS = [
    *("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes"),
    *("-Wpointer-arith", "-Wwrite-strings", "-Wvla", "-Wundef"),
]
COMPILERS = ("gcc", "clang", "aarch64-linux-gnu-gcc")


def main() -> int:
    failed = False
    for compiler in COMPILERS:
        if shutil.which(compiler) is None:
            print(f"{compiler}: not here, not tried")
            continue
        command = [compiler, *COMMON, *WARNINGS, "-O2", "-fno-builtin", "-fsyntax-only", *SOURCES]
        failed |= subprocess.run(command, check=False).returncode != 0
        print(f"{compiler}: {len(SOURCES)} files")
    tidy = Path(sys.executable).with_name("clang-tidy")
    quiet = [tidy, "--quiet", "--warnings-as-errors=*", *PROBES, "--", *COMMON]
    found = subprocess.run(quiet, check=False, capture_output=True, text=True)
    if found.returncode:
        print(found.stdout)
    print(f"clang-tidy: {len(PROBES)} files")
    return int(failed or found.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
