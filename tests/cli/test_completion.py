"""Completion in a real shell where there is one, and what it offers everywhere."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command, memlab
from quick import mostly_slow

from memlab import experiments
from memlab.store import Store

SHELLS = ["bash", "zsh", "fish"]


def offered(line: str, store: Path | None = None) -> list[str]:
    """What bash would be offered for the last word of a line."""
    environment = {
        "_MEMLAB_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    if store:
        environment["MEMLAB_STORE"] = str(store)
    done = memlab(**environment)
    assert done.stderr == ""
    return [answer.partition(",")[2] for answer in done.stdout.split("\n") if answer]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(command: Command, shell: str) -> None:
    done = command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_MEMLAB_COMPLETE" in done.stdout


def test_bash_takes_the_script(command: Command, tmp_path: Path) -> None:
    script = tmp_path / "memlab.bash"
    script.write_text(command("completion", "bash").stdout)
    bash = shutil.which("bash")
    assert bash is not None
    told = f"source {script}; complete -p memlab"
    done = subprocess.run([bash, "-c", told], capture_output=True, text=True, check=True)
    assert "-F _memlab_completion memlab" in done.stdout


def typed(line: str, script: Path) -> str:
    """The line of an interactive bash after these keys: its last words, which echo prints."""
    master, slave = os.openpty()
    folder = Path(sys.executable).parent
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "},
        start_new_session=True,
    )
    os.close(slave)
    keys = f"source {script}; bind 'set completion-display-width 0'\n{line}\x01echo GOT:\x05:END\n"
    os.write(master, keys.encode())
    said = b""
    while not (found := re.search(rb"\nGOT:(.*?):END", said)):
        if not select.select([master], [], [], 300)[0]:
            break
        said += os.read(master, 4096)
    shell.kill()
    shell.wait()
    os.close(master)
    assert found, said
    return found[1].decode()


TYPED = {
    "memlab sweep mmap-write -p method=p\t": "memlab sweep mmap-write -p method=pwrite ",
    "memlab sweep mmap-write -p me\t": "memlab sweep mmap-write -p method=",
    "memlab sweep mmap-write -p method=mmap,p\t": " method=mmap,pwrite ",
    "memlab describe mmap-w\t": "memlab describe mmap-write ",
}


@pytest.mark.parametrize("line", mostly_slow(TYPED, "memlab sweep mmap-write -p method=mmap,p\t"))
def test_bash_completes_what_is_typed(command: Command, tmp_path: Path, line: str) -> None:
    script = tmp_path / "memlab.bash"
    script.write_text(command("completion", "bash").stdout)
    assert typed(line, script).endswith(TYPED[line])


def test_experiments_are_offered() -> None:
    assert offered("memlab sweep ") == experiments.names()
    assert offered("memlab describe mmap-w") == ["mmap-write"]
    assert {"logstore-mmap", "mmap-write", "all"} <= set(offered("memlab reproduce "))


def test_commands_are_offered_in_the_order_of_help_and_in_their_groups() -> None:
    assert offered("memlab ")[:3] == ["sweep", "show", "claims"]
    assert "completion" not in offered("memlab ")
    assert offered("memlab hosts ") == ["pull", "import", "worker"]
    assert offered("memlab kernels l") == ["list", "ladder"]


def test_factors_and_their_levels_are_offered() -> None:
    assert "size=" in offered("memlab sweep mmap-write -p ")
    # bash cuts a word at its equals sign, and click is given the whole.
    assert offered("memlab sweep mmap-write -p method=p") == ["method=pwrite"]
    assert offered("memlab sweep mmap-write -p method=mmap,w") == [
        "method=mmap,write",
        "method=mmap,writev",
    ]
    assert offered("memlab sweep nothing -p ") == []
    assert offered("memlab sweep mmap-write -p nothing=") == []


def test_runs_are_offered_the_newest_first(measured: Path) -> None:
    with Store(measured) as opened:
        runs = opened.runs()
    assert offered("memlab show ", measured)[:2] == ["last", runs[-1].id]
    assert offered(f"memlab compare {runs[-1].id} l", measured) == ["last"]


def test_recorded_runs_are_offered() -> None:
    assert "example:mmap-write" in offered("memlab show example:mm")


def test_no_store_is_no_offer(tmp_path: Path) -> None:
    assert offered("memlab show ", tmp_path / "none.db") == []
