"""Programs that the kernel shows to nobody: set-id, with file capabilities."""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from unprivileged import reading

from memlab.errors import BadLevels
from memlab.trace import account, file, recording, replay, shown

pytestmark = pytest.mark.needs("root", "set-id files", "traces", "recording")

NOBODY = 65534
SOURCE = """
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    volatile char *at = mmap(NULL, atol(words[1]) * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    for (long i = 0; i < atol(words[1]); i++)
        at[i * 4096] = 1;
    if (count > 2 && !fork()) {
        execv(words[2], words + 2);
        _exit(1);
    }
    wait(NULL);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    (made / "plain.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-o", "plain", "plain.c"], cwd=made, check=True)
    program = (made / "plain").read_bytes()
    for name, mode, owner, group in (
        ("of-root", 0o4755, 0, 0),
        ("of-nobody", 0o4755, NOBODY, 0),
        ("of-group", 0o2755, 0, 0),
        ("capable", 0o755, 0, 0),
    ):
        path = made / name
        path.write_bytes(program)
        os.chown(path, owner, group)
        path.chmod(mode)
    # CAP_NET_BIND_SERVICE, effective: vfs_cap_data of version 2 (linux/capability.h).
    value = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    os.setxattr(made / "capable", "security.capability", value)
    return made


def recorded(path: Path, *command: str) -> tuple[file.Trace, account.TraceAccount]:
    assert recording.record(path, command=command).status == 0
    trace = file.read(path)
    return trace, account.of(trace)


@pytest.mark.seconds(but="root-capable-False")
@pytest.mark.parametrize(
    ("user", "name", "is_unseen"),
    [
        ("root", "plain", False),
        ("root", "of-root", False),
        ("root", "of-group", False),
        ("root", "capable", False),
        ("root", "of-nobody", True),
        ("nobody", "plain", False),
        ("nobody", "of-root", True),
        ("nobody", "of-group", True),
        ("nobody", "capable", True),
    ],
)
def test_each_process_that_is_not_seen_inside_is_named(
    user: str, name: str, is_unseen: bool, folder: Path, tmp_path: Path
) -> None:
    words = reading() if user == "nobody" else []
    programs = [str(folder / "plain"), "401", str(folder / name), "101"]
    trace, found = recorded(tmp_path / "a.trace", *words, *programs)
    assert (trace.unfollowed, found.unseen_count, len(found.unseen)) == (is_unseen,) * 3
    assert file.task_names(trace, found.unseen) == [name] * is_unseen
    said = "\n".join(shown.lines(trace, found))
    assert (f"not seen inside: {name} in 1 process" in said) == is_unseen
    assert ("set-id, has file capabilities or may not be read" in trace.incomplete) == is_unseen
    if is_unseen:
        assert trace.faults - found.faults >= 101


@pytest.mark.parametrize(("pages", "unseen", "is_enough"), [(4001, 11, True), (11, 4001, False)])
def test_what_needs_the_whole_program_is_answered_of_most_of_it(
    pages: int, unseen: int, is_enough: bool, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.trace"
    programs = [str(folder / "plain"), str(pages), str(folder / "of-nobody"), str(unseen)]
    trace, found = recorded(path, *programs)
    share = account.inside_share(trace, found)
    assert share is not None
    assert (share >= 0.5) == is_enough
    assert ("lock=off,future" in "\n".join(shown.lines(trace, found))) == is_enough
    for policies in ({"lock": ["off", "future"]}, {"memory_max": ["none", "32M"]}):
        (policy,) = policies
        if is_enough:
            said = replay.checked([path], policies, serve=[], metrics=[])
            assert "% of the program's page faults are in the trace" in said
        else:
            with pytest.raises(BadLevels, match=f"{policy}: a.trace: .* of the program's page"):
                replay.checked([path], policies, serve=[], metrics=[])
    said = replay.checked([path], {"lock": ["off", "current"]}, serve=[], metrics=[])
    assert "page faults are in" not in said


def test_the_faults_of_a_program_that_was_ended_are_known(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    runs = f"{folder}/of-nobody 101; {folder}/plain 4001; echo ready; exec sleep 1000"
    words = ["record", "-o", str(path), "--", "sh", "-c", runs]
    with subprocess.Popen(
        [sys.executable, "-m", "memlab", *words], stdout=subprocess.PIPE, text=True
    ) as recorder:
        assert recorder.stdout is not None
        try:
            assert recorder.stdout.readline() == "ready\n"
        finally:
            recorder.send_signal(signal.SIGTERM)
        recorder.communicate(timeout=300)
    trace = file.read(path)
    assert (trace.cut, trace.cut_by) == (file.Cut.SIGNALLED, signal.SIGTERM)
    found = account.of(trace)
    assert trace.faults - found.faults >= 101
    assert "% of the" in replay.checked([path], {"lock": ["off", "future"]}, serve=[], metrics=[])
