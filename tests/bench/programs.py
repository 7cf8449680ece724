"""Real programs that the benches of traces run: a command, what it needs, and its files."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REDIS = """\
redis-server --port 0 --unixsocket s --save '' --daemonize no >/dev/null & p=$!
until redis-cli -s s ping >/dev/null 2>&1; do kill -0 $p || exit; sleep 0.2; done
timeout 20 redis-benchmark -s s -t set -n 20000 -d 512 -r 20000 -q >/dev/null
kill $p; wait $p"""
JAVA = """\
public class A {
    public static void main(String[] words) {
        byte[][] held = new byte[400][];
        for (int i = 0; i < held.length; i++) {
            held[i] = new byte[100_000];
            held[i][i] = 1;
        }
    }
}
"""
PERL = "my %h; $h{$_ * 7919 % 1000003} = 'x' . $_ for 1 .. 150000"
NODE = "const held = []; for (let i = 0; i < 200000; i++) held.push({i, s: 'x' + i})"
SQLITE = (
    "CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
    "WHERE i < 200000) INSERT INTO t SELECT i, 'row ' || i FROM n; SELECT count(*) FROM t"
)
THREADS = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *churn(void *seed)
{
	void *held[64] = {0};
	unsigned state = (unsigned)(size_t)seed;
	for (int i = 0; i < 1200000; i++) {
		state = state * 1103515245 + 12345;
		unsigned at = state >> 16 & 63;
		free(held[at]);
		size_t bytes = 16 + (state >> 8 & 0xffff);
		held[at] = malloc(bytes);
		memset(held[at], 1, bytes < 64 ? bytes : 64);
	}
	return NULL;
}
int main(void)
{
	pthread_t made[4];
	for (size_t i = 0; i < 4; i++)
		pthread_create(&made[i], NULL, churn, (void *)(i + 1));
	for (size_t i = 0; i < 4; i++)
		pthread_join(made[i], NULL);
	return 0;
}
"""

GO = """\
package main

func main() {
	held := make([][]byte, 600)
	for i := range held {
		held[i] = make([]byte, 100000)
		for j := 0; j < len(held[i]); j += 4096 {
			held[i][j] = 1
		}
	}
	println(len(held))
}
"""
RUST = """\
fn main() {
    let held: Vec<String> = (0..300000u32).map(|i| format!("row {}", i * 7919)).collect();
    let mut sorted = held.clone();
    sorted.sort();
    println!("{}", sorted[0]);
}
"""
CPP = """\
#include <algorithm>
#include <map>
#include <regex>
#include <string>
int main() { std::map<std::string, int> m; m["a"] = std::regex("b+").mark_count(); return m["a"]; }
"""
NUMPY = "import numpy as np; x = np.arange(2_000_000.0) * 7919 % 1_000_003; print(np.sort(x)[1])"
TCL = "for {set i 0} {$i < 200000} {incr i} {lappend held x$i}; puts [llength $held]"
AWK = 'BEGIN { for (i = 0; i < 200000; i++) held[i * 7919 % 1000003] = i "x"; print 1 }'
JQ = "[inputs] | length"


def _lines(folder: Path) -> None:
    (folder / "lines").write_text("".join(f"{n * 7919 % 400_009:x} line\n" for n in range(400_000)))


def _numbers(folder: Path) -> None:
    (folder / "numbers").write_text("".join(f'{{"n":{n}}}\n' for n in range(100_000)))


def _built(source: str, name: str, *command: str) -> Callable[[Path], None]:
    """Writes the source, and runs the compiler on it."""

    def make(folder: Path) -> None:
        (folder / name).write_text(source)
        if command:  # compilers are asked for by a home that is not the test's
            home = pwd.getpwuid(os.getuid()).pw_dir
            subprocess.run(command, cwd=folder, check=True, env={**os.environ, "HOME": home})

    return make


def _java(folder: Path) -> None:
    (folder / "A.java").write_text(JAVA)
    subprocess.run(["javac", "A.java"], cwd=folder, check=True)


def _threads(folder: Path) -> None:
    (folder / "t.c").write_text(THREADS)
    subprocess.run(["cc", "-O1", "-pthread", "-o", "t", "t.c"], cwd=folder, check=True)


def _data(folder: Path) -> None:
    words = (folder.name + str(n * 7919 % 65_537) for n in range(1 << 20))
    (folder / "data").write_bytes("".join(words).encode()[: 6 << 20])


@dataclass(frozen=True)
class Program:
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    make: Callable[[Path], None] | None = None


FILLS = "for _ in range(5): x = bytearray(40_000_000)"
PROGRAMS = {
    "python3, 40 MB five times": Program((sys.executable, "-I", "-S", "-c", FILLS)),
    "sort, 400,000 lines, -S 48M": Program(
        ("sort", "-S", "48M", "--parallel=1", "-o", "/dev/null", "lines"), ("sort",), _lines
    ),
    "sqlite3, 200,000 rows in memory": Program(("sqlite3", ":memory:", SQLITE), ("sqlite3",)),
    "redis-server, 20,000 sets of 512 B, with its load": Program(
        ("sh", "-c", REDIS), ("redis-server", "redis-benchmark")
    ),
    "java, 400 arrays of 100 kB": Program(
        ("java", "-XX:+UseSerialGC", "-cp", ".", "A"), ("java", "javac"), _java
    ),
    "node, 200,000 objects": Program(("node", "-e", NODE), ("node",)),
    "gcc -O2 -c launch.c": Program(
        ("gcc", "-D_GNU_SOURCE", "-O2", "-c", "-o", "/dev/null", f"{ROOT}/memlab/command/launch.c"),
        ("gcc",),
    ),
    "malloc in four threads": Program(("./t",), ("cc",), _threads),
    "zstd -12, 6 MiB": Program(("zstd", "-q", "-12", "-c", "data"), ("zstd",), _data),
    "perl, a hash of 150,000 entries": Program(("perl", "-e", PERL), ("perl",)),
    "git log -p, 20 commits": Program(
        ("git", "-C", str(ROOT), "--no-pager", "log", "-p", "-20"), ("git",)
    ),
    "Go, static, 600 slices of 100 kB": Program(
        ("./go",), ("go",), _built(GO, "a.go", "go", "build", "-o", "go", "a.go")
    ),
    "Rust, 300,000 strings, sorted": Program(
        ("./rust",), ("rustc",), _built(RUST, "a.rs", "rustc", "-O", "-o", "rust", "a.rs")
    ),
    "g++ -O1, map and regex": Program(
        ("g++", "-O1", "-c", "-o", "/dev/null", "a.cc"), ("g++",), _built(CPP, "a.cc")
    ),
    "numpy, 2,000,000 numbers, sorted": Program((sys.executable, "-c", NUMPY)),
    "xz -2, 6 MiB": Program(("xz", "-2", "-k", "-c", "data"), ("xz",), _data),
    "bzip2, 6 MiB": Program(("bzip2", "-k", "-c", "data"), ("bzip2",), _data),
    "tar and gzip in a pipe": Program(
        ("sh", "-c", "tar cf - data data data | gzip -1"), ("tar", "gzip"), _data
    ),
    "busybox sort, 400,000 lines": Program(("busybox", "sort", "lines"), ("busybox",), _lines),
    "jq, 100,000 objects": Program(("jq", "-n", JQ, "numbers"), ("jq",), _numbers),
    "tclsh, a list of 200,000": Program(("tclsh", "list.tcl"), ("tclsh",), _built(TCL, "list.tcl")),
    "awk, a hash of 200,000": Program(("awk", AWK), ("awk",)),
}


def chosen() -> list[str]:
    """All programs, or those whose names begin as BENCH_PROGRAMS lists."""
    begins = tuple(os.environ.get("BENCH_PROGRAMS", "").split(","))
    return [name for name in PROGRAMS if name.startswith(begins)]


def commands(place: Path, budget_s: float, missing: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each chosen program and its command, to be run in the current folder, which is one of its
    own. Those that are not here, and those that would begin after so long, are named as missing."""
    began_s = time.monotonic()
    for number, name in enumerate(chosen()):
        folder = place / str(number)
        folder.mkdir()
        with chdir(folder):
            try:
                command = made(name, folder)
            except pytest.skip.Exception as skipped:
                missing.append(f"{name}: {skipped}")
                continue
            if time.monotonic() - began_s > budget_s:
                missing.append(f"{name}: no time was left")
                continue
            yield name, command


def made(name: str, folder: Path) -> list[str]:
    """The command of a program, whose files are in the folder. It is skipped if it is not here."""
    program = PROGRAMS[name]
    if missing := [one for one in program.needs if shutil.which(one) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    if program.make:
        program.make(folder)
    return list(program.command)
