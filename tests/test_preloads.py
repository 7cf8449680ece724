"""Into which programs ld.so preloads nothing: those that the kernel starts with AT_SECURE set."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from unprivileged import reading

import memlab

pytestmark = pytest.mark.needs("root", "set-id files")

NOBODY = 65534
# vfs_cap_data of version 2 (linux/capability.h): CAP_NET_BIND_SERVICE, and none.
CAPABLE, NONE = (struct.pack("<5I", 0x02000000 | e, e << 10, 0, 0, 0) for e in (1, 0))
PROGRAMS = {
    "plain": (0o755, 0, 0, None),
    "of-root": (0o4755, 0, 0, None),
    "of-nobody": (0o4755, NOBODY, 0, None),
    "of-group": (0o2755, 0, NOBODY - 1, None),
    "locks-files": (0o2745, 0, NOBODY - 1, None),  # without x for the group
    "capable": (0o755, 0, 0, CAPABLE),
    "of-no-capability": (0o755, 0, 0, NONE),
}
SECURE = {
    "root": {"of-nobody", "of-group"},
    "nobody": {"of-root", "of-group", "capable"},
}
SAYS = """
#include <stdio.h>
#include <sys/auxv.h>
int main(void)
{
    return !printf("%d", getauxval(AT_SECURE) != 0);
}
"""
CHECKS = """
import os, subprocess, sys
from memlab.command.python_probes.command.preloads import check_preloads, uncounted
from memlab.probe import Failed
for path in sys.argv[1:]:
    said = subprocess.run([path], capture_output=True, text=True, check=True).stdout
    try:
        check_preloads(path, os.environ, "lock")
        why = ""
    except Failed as failed:
        why = failed.call
    print(os.path.basename(path), said, bool(why), bool(uncounted(path, os.environ)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    (made / "plain.c").write_text(SAYS)
    subprocess.run(["cc", "-o", "secure", "plain.c"], cwd=made, check=True)
    for name, (mode, owner, group, capabilities) in PROGRAMS.items():
        path = made / name
        path.write_bytes((made / "secure").read_bytes())
        os.chown(path, owner, group)
        path.chmod(mode)
        if capabilities:
            os.setxattr(path, "security.capability", capabilities)
    return made


@pytest.mark.parametrize("user", SECURE)
def test_a_program_with_other_rights_takes_no_preload(user: str, folder: Path) -> None:
    words = [*(reading() if user == "nobody" else []), sys.executable, "-c", CHECKS]
    paths = [str(folder / name) for name in PROGRAMS]
    done = subprocess.run([*words, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        name, *said = line.split()
        is_secure = name in SECURE[user]
        assert said == [str(int(is_secure)), str(is_secure), str(is_secure)], name


def test_a_program_that_is_not_counted_inside_has_no_faults(folder: Path, store_path: Path) -> None:
    for name in ("plain", "of-nobody"):
        run = memlab.trial([str(folder / name)], blocks=1, store=store_path, nice=0)
        (tried,) = run.samples
        assert tried.outcome == "ok", tried.detail
        missing = (tried.raw or {})["missing"]
        assert ("set-user-ID" in missing.get("faults", "")) == (name == "of-nobody")


@pytest.mark.needs("jemalloc", "a static C library")
def test_a_static_program_takes_no_other_allocator(tmp_path: Path, store_path: Path) -> None:
    (tmp_path / "static.c").write_text("int main(void) { return 0; }")
    subprocess.run(["cc", "-static", "-o", "static", "static.c"], cwd=tmp_path, check=True)
    levels = ["system", "jemalloc"]
    run = memlab.trial([str(tmp_path / "static")], blocks=1, store=store_path, malloc=levels)
    outcomes = {run.points[one.point].at["malloc"]: one for one in run.samples}
    assert outcomes["system"].outcome == "ok"
    assert outcomes["jemalloc"].outcome == "unavailable"
    assert "is static, and preloads no allocator" in (outcomes["jemalloc"].detail or "")
