"""Page faults that the kernel takes for a command, which an ordinary user's counter leaves out."""

import os
import subprocess
from pathlib import Path

import pytest
from unprivileged import powerless

import memlab
from memlab.errors import NotComparable
from memlab.judging import reproduce, user_faults
from memlab.judging.compare import compare_runs
from memlab.present.documents.run import Show
from memlab.present.screens.answer import sentences

IN_KERNEL, TOUCHED = 1009, 211
READS = f"""
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{{
    volatile char *at = mmap(0, ({IN_KERNEL} + {TOUCHED}) * 4096L, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < {TOUCHED}; i++)
        at[i * 4096] = 1;
    long got = read(open("/dev/zero", O_RDONLY), (char *)at + {TOUCHED} * 4096L,
                    {IN_KERNEL} * 4096L);
    return got != {IN_KERNEL} * 4096L;
}}
"""


@pytest.mark.seconds
@pytest.mark.needs("host root", "kernel.perf_event_paranoid of 2")
def test_a_count_without_the_kernels_faults_says_so_and_is_compared_with_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "reads.c").write_text(READS)
    subprocess.run(["cc", "-O1", "-o", "reads", "reads.c"], cwd=tmp_path, check=True)
    command = [str(tmp_path / "reads")]
    root = memlab.trial(command, blocks=1, store=tmp_path / "root.db", thp=["never"])
    words = ["-m", "memlab", "--store", str(tmp_path / "user.db"), "try", "--blocks", "1"]
    done = powerless(*words, "-p", "thp=never", "--", *command)
    assert done.returncode == 0, done
    user = memlab.load(store=tmp_path / "user.db")
    assert user_faults.lacks_kernel(user)
    whole, part = (float(run.values("faults", run.points[0]).min()) for run in (root, user))
    assert whole > IN_KERNEL + TOUCHED
    assert TOUCHED < part < whole - IN_KERNEL + 50
    (remark,) = Show.made_of(user).remarks
    assert remark.startswith("page faults: those in the kernel")
    assert remark in [one.text for one in sentences(reproduce.of_run(user), verbose=False)]
    assert Show.made_of(root).remarks == []
    for sides in ((root, user), (user, root)):
        with pytest.raises(NotComparable, match=f"are not among those of run {user.id}"):
            compare_runs(*sides, metric="faults")
    compare_runs(root, user, metric="peak_rss")
    assert compare_runs(user, user, metric="faults").points


STARTS = """
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (count > 3 ? MAP_POPULATE : 0);
    volatile char *at = mmap(0, atol(words[1]) * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    for (long i = 0; i < atol(words[1]); i++)
        at[i * 4096] = 1;
    if (count > 2 && *words[2] && !fork())
        execl(words[2], words[2], "4001", NULL);
    wait(NULL);
    return 0;
}
"""


@pytest.mark.needs("host root", "tracing of a CPU", "set-id files")
@pytest.mark.parametrize(
    ("words", "is_lacking"),
    [
        (["1009", "{}/plain"], False),
        (["1009", "{}/of-group"], True),
        (["4001", "", "populates"], True),
    ],
)
def test_faults_that_perf_lacks_are_said(
    words: list[str], is_lacking: bool, tmp_path: Path
) -> None:
    """A set-id program that it starts, and what a call brings in."""
    (tmp_path / "starts.c").write_text(STARTS)
    subprocess.run(["cc", "-O1", "-o", "plain", "starts.c"], cwd=tmp_path, check=True)
    (tmp_path / "of-group").write_bytes((tmp_path / "plain").read_bytes())
    os.chown(tmp_path / "of-group", 0, 65533)
    (tmp_path / "of-group").chmod(0o2755)
    command = [str(tmp_path / "plain"), *(word.format(tmp_path) for word in words)]
    run = memlab.trial(command, blocks=1, store=tmp_path / "a.db", thp=["never"])
    lines = [*user_faults.uncounted(run)]
    assert len(lines) == is_lacking
    assert all(line.startswith("page faults: perf counted ") for line in lines)
    assert Show.made_of(run).remarks == lines
    said = [f"run {run.id}: {line}" for line in lines]
    assert {*said} <= {*compare_runs(run, run, metric="faults").remarks}
    assert not {*said} & {*compare_runs(run, run, metric="peak_rss").remarks}
