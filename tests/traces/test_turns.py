"""Turns of a replay of allocations: one task runs at a time, however the kernel schedules them."""

import subprocess
from pathlib import Path

import pytest

from .made import ALLOCATE, AT, FORK, HAS_ALLOCATIONS, PAGE, TASK, THREAD, Made
from .test_allocations import again

pytestmark = pytest.mark.needs("traces")

WINDOWS, WATCHED = 200, 100
# This is preloaded into the replay of two tasks. It holds a task inside its wake of the other, as
# an unlucky kernel does: of four wakes, the first returns after the other has passed its turn back,
# and the second after that one has passed it on and waits. Two wakes of the same task in succession
# are two turns at the same time. The guard ends only a replay that hangs.
SHIM = f"""
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum {{ GUARD_MS = 60000 }};
static struct {{
    uint32_t wakes, waits, is_wrong;
    long last;
}} volatile *calls; /* of futex(2), by threads and forked processes */
static long (*real)(long, ...);
static __attribute__((constructor)) void begin(void)
{{
    calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}}
static void fail(const char *why, uint32_t wake)
{{
    if (!__atomic_exchange_n(&calls->is_wrong, 1, __ATOMIC_SEQ_CST))
        dprintf(2, "wake %u: %s\\n", wake, why);
    _exit(9);
}}
static void hold(uint32_t wake, uint32_t before)
{{
    for (int ms = 0; ms < GUARD_MS && !calls->is_wrong; ms++) {{
        if (wake % 4 == 1 ? calls->wakes > wake :
            wake % 4 != 2 || calls->wakes + calls->waits >= before + 2)
            return;
        usleep(1000);
    }}
    fail("the other task does not go on", wake);
}}
long syscall(long number, ...)
{{
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    uint32_t wake = 0;
    if (number == SYS_futex && words[1] == FUTEX_WAKE) {{
        wake = __atomic_add_fetch(&calls->wakes, 1, __ATOMIC_SEQ_CST);
        if (wake <= {WATCHED} && calls->last == words[0])
            fail("a task is woken that has the turn", wake);
        calls->last = words[0];
    }} else if (number == SYS_futex)
        __atomic_add_fetch(&calls->waits, 1, __ATOMIC_SEQ_CST);
    uint32_t before = calls->wakes + calls->waits;
    long result = real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (wake && wake <= {WATCHED})
        hold(wake, before);
    return result;
}}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    words = ["cc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"]
    subprocess.run(words, cwd=folder, check=True)
    return str(folder / "shim.so")


@pytest.mark.parametrize("words", [[], ["order=free"]], ids=["turns", "free"])
@pytest.mark.parametrize("what", [THREAD, FORK], ids=["thread", "process"])
def test_a_task_that_is_late_to_wait_has_no_turn_of_another(
    what: int, words: list[str], shim: str, tmp_path: Path
) -> None:
    """Each large block has a window of its own, of the other task than the one before."""
    trace = Made(flags=HAS_ALLOCATIONS, tasks=2).number(TASK, 1, what=what)
    for i in range(WINDOWS):
        task = i % 2
        trace.add(ALLOCATE, 0, task, 300 * PAGE, 0, AT + (task << 24), task=task)
    path = tmp_path / "a.trace"
    path.write_bytes(trace.bytes(blocks=2))
    status, done, said = again(path, *words, LD_PRELOAD=shim)
    assert (status, said) == (0, "")
    assert (done["allocated"], done["freed"], done["skipped"]) == (WINDOWS, WINDOWS - 2, 0)
