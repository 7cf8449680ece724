"""Hosts that lie: a host that fails is never a success, whatever it sends, keeps or says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from pretended_hosts import TINY

from memlab import recorded
from memlab.machines.fleet import link as one_link
from memlab.machines.fleet import links
from memlab.machines.fleet.link import Link
from memlab.machines.fleet.links import Hints, HostLink, Result, Wanted
from memlab.machines.tail import KEPT_BYTES
from memlab.store import Store, lines, travel


def files(folder: Path, run: str) -> None:
    """What an honest host sends of a run and of another one, and parts of it."""
    folder.mkdir()
    with Store(recorded.store("mmap-write")) as opened:
        base = opened.find("mmap-write")
        points, session = opened.points(base.id)[:2], opened.sessions(base.id)[0]
        samples = [s for s in opened.samples(base.id) if s.point in (0, 1)][:4]
    for name, id in (("rows", f"{run}1"), ("again", f"{run}2")):
        row = replace(base, id=id, name=None, origin=None)
        made = [lines.of_run(row, len(points), len(samples))]
        made += [lines.of_point(id, point) for point in points]
        made += [lines.of_session(id, replace(session, ended=None, samples=0))]
        made += [lines.of_sample(id, sample) for sample in samples]
        made += [lines.of_session(id, replace(session, samples=len(samples)))]
        text = "".join(f"{line}\n" for line in made)
        (folder / f"{name}-unended").write_text(text)
        (folder / name).write_text(text + lines.of_end(len(samples)) + "\n")
        (folder / f"{name}-half").write_text(text[: len(text) // 2])
    (folder / "nothing").write_text(lines.of_end(0) + "\n")
    first = lines.of_run(replace(base, id=f"{run}3", origin=None), 10**9, 0)
    (folder / "points").write_text(f"{first}\n")


class Told(list[str]):
    """The lines about hosts that failed."""

    def __call__(self, result: Result) -> None:
        self.append(f"{result.host}: {result.wrong}")


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host is a line of shell, run in a folder with what it sends: rows of its own runs."""
    folder = tmp_path / "sent"
    folder.mkdir()

    def command(name: str, host: HostLink, _: object) -> list[str]:
        if not (place := folder / name).exists():
            files(place, sha256(name.encode()).hexdigest()[:7])
        return ["bash", "-c", f"cd {place}; {host.memlab}"]

    monkeypatch.setattr(links, "command", command)
    return folder


def nothing(_: str) -> None:
    pass


# What a host does, and what is said of it; by `silence` those that are left because of it.
BOTH = {
    "ends-with-0-and-nothing": ("exit 0", "it ended with 0, and its last row did not come"),
    "ends-with-0-and-reads-nothing": ("exec 0<&-; exit 0", "it ended with 0, and its last"),
    "fails-and-says-a-blank-line": ("printf 'bad store\\n\\n' >&2; exit 3", "bad store"),
    "fails-and-says-only-blanks": ("printf '\\n \\t\\n' >&2; exit 3", "exit code 3"),
    "ends-by-python-itself": (
        "printf 'Fatal Python error: x\\n\\nExtension modules: y\\n' >&2; exit 134",
        "Fatal Python error: x",
    ),
    "fails-and-says-nothing": ("exit 9", "exit code 9"),
    "fails-and-says-what-is-not-seen": ("printf '\\33[2J\\0' >&2; exit 3", r"\x1b[2J\x00"),
    "is-not-reached": ("echo no route >&2; exit 255", "not reached: no route"),
    "is-not-reached-and-says-nothing": ("exit 255", "not reached: exit code 255"),
    "sends-all-rows-and-fails": ("cat rows; echo disk full >&2; exit 1", "disk full"),
    "sends-no-last-row-and-ends-with-0": ("cat rows-unended", "it ended with 0, and its last row"),
    "sends-half-a-row-and-ends-with-0": ("cat rows-half", "it ended with 0, and its last row"),
    "sends-noise": ("head -c 9999 /dev/urandom; echo", "can't decode|not a row"),
    "sends-noise-for-ever": ("exec cat /dev/urandom", "can't decode|not a row|more than 16 MiB"),
    "sends-a-line-without-end": ("exec tr '\\0' x < /dev/zero", "more than 16 MiB"),
    "sends-text-for-ever": ("exec yes", "it is not a row of memlab: 'y'"),
    "sends-a-run-of-this-host": ("cat ../here/rows", "is this host's own|which is here already"),
    "sends-points-without-number": ("cat points", "a run of more than 100,000 points"),
    "sends-no-more-and-goes-on": ("cat rows-half; exec sleep 600 >&-", "and does not end"),
    "sends-all-rows-and-goes-on": ("cat rows; exec sleep 600 >&-", "and then it did not end"),
    "says-much-on-standard-error": ("exec cat /dev/zero >&2", "and does not end"),
    "leaves-standard-error-open": ("sleep 3 >&- & exit 7", "exit code 7"),
}
MEASURED = {
    "sends-two-runs": ("cat rows again", "it sends a second run, and one was asked for"),
    "measures-nothing": ("cat nothing", "it measured nothing, and does not say why"),
    "sends-empty-lines-for-ever": ("exec yes ''", "it sends empty lines without end"),
}
SILENT = {
    "sends-all-rows-and-waits": "cat rows; exec sleep 600",
    "says-nothing": "exec sleep 600",
    "says-nothing-and-closes-its-input": "exec 0<&-; exec sleep 600",
    "sends-half-a-row": "cat rows-half; exec sleep 600",
    "sends-a-line-byte-by-byte": "while printf x; do sleep 0.05; done",
    "says-much-on-standard-error": "cat /dev/zero >&2",
    "leaves-its-output-open": "sleep 3 & exit 7",
}


def own_run(store: Path, sent: Path) -> None:
    with Store(store, create=True) as opened:
        arriving = travel.Arriving(opened, own=lambda row: row)
        for line in (sent / "own-half").read_text().splitlines()[:-1]:
            arriving.take(line)


def wrong(liars: Mapping[str, str], store: Path, *, measured: bool) -> dict[str, str]:
    """What is said of each host, when all are asked for their rows, or to measure. The rows of an
    honest one among them are taken."""
    told = Told()
    hosts = {
        name: HostLink(memlab=how) for name, how in {**liars, "honest": "cat rows # honest"}.items()
    }
    if measured:
        hints, wanted = Hints("h.toml"), Wanted("mmap-write")
        results = links.sweep(hosts, ["sweep"], wanted, store, hints, nothing, told)
    else:
        results = links.pull(hosts, store, nothing, told)
    honest = next(one for one in results if one.host == "honest")
    assert (honest.is_failed, honest.samples) == (False, 4)
    said = {one.host: one.wrong for one in results if one.is_failed}
    assert sorted(told) == sorted(f"{name}: {why}" for name, why in said.items())
    return said


@pytest.mark.seconds
@pytest.mark.parametrize("measured", [False, True], ids=["pull", "sweep"])
def test_a_host_that_fails_is_no_success(
    measured: bool, tmp_path: Path, sent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_link, "CLOSE_S", 0.5)
    files(sent / "here", "abcd000")
    with Store(tmp_path / "here.db", create=True) as opened:
        arriving = travel.Arriving(opened, own=lambda row: row)
        for line in (sent / "here/rows-unended").read_text().splitlines()[:-2]:
            arriving.take(line)
        arriving.flush()
    liars = {**BOTH, **(MEASURED if measured else {})}
    how = {name: script for name, (script, _) in liars.items()}
    said = wrong(how, tmp_path / "here.db", measured=measured)
    for name, (_, parts) in liars.items():
        assert any(part in said.get(name, "") for part in parts.split("|")), (name, said.get(name))


@pytest.mark.seconds
@pytest.mark.parametrize("measured", [False, True], ids=["pull", "sweep"])
def test_a_host_that_sends_no_line_is_left(
    measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a patience of its own; that of the honest host is as long as it takes."""

    def impatient(words: Sequence[str], patience_s: float, given: bytes | None = None) -> Link:
        return Link(words, patience_s if "honest" in words[-1] else 0.6, given)

    monkeypatch.setattr(links, "Link", impatient)
    said = wrong(SILENT, tmp_path / "here.db", measured=measured)
    assert said.pop("sends-all-rows-and-waits") == "all of its rows came, and then it did not end"
    assert said.keys() == SILENT.keys() - {"sends-all-rows-and-waits"}
    assert {n: why for n, why in said.items() if "it sent no line for 1 s" not in why} == {}


def test_a_host_that_sends_what_it_measured_before(tmp_path: Path) -> None:
    """An honest sweep; the same rows again are none; nor are they of another experiment, or run."""
    store, told = tmp_path / "here.db", Told()
    host = {"a": HostLink(memlab="cat rows")}

    def swept(wanted: Wanted) -> str:
        (one,) = links.sweep(host, ["sweep"], wanted, store, Hints("ssh:a"), nothing, told)
        return one.wrong

    assert swept(Wanted("mmap-write")) == ""
    assert "which is here already" in swept(Wanted("mmap-write"))
    assert swept(Wanted(None, "ca978111", goes_on=True)) == ""
    assert "sends run ca978111, which was not" in swept(Wanted(None, "abcd0002", goes_on=True))
    assert "a run of mmap-write, which was not" in swept(Wanted("vma-lock"))


def test_hosts_are_asked_at_the_same_time_and_the_rows_of_others_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One host ends only when the others have been asked, and they answer when it was."""
    for name in ("first", "last"):
        os.mkfifo(tmp_path / name)
    told, store = Told(), tmp_path / "here.db"
    hosts = {
        "first": HostLink(memlab=f"echo > {tmp_path}/first; cat rows"),
        "liar": HostLink(memlab=f"cat {tmp_path}/first {tmp_path}/last > /dev/null; cat rows-half"),
        "last": HostLink(memlab=f"echo > {tmp_path}/last; cat rows"),
    }
    results = links.pull(hosts, store, nothing, told)
    assert [one.samples for one in results] == [4, 0, 4]
    assert told == ["liar: it ended with 0, and its last row did not come"]


def test_only_the_end_of_what_a_host_says_is_kept() -> None:
    link = Link(["bash", "-c", "head -c 9M /dev/zero >&2; echo end >&2; echo"], 60.0)
    assert link.readline(9) == b"\n"
    link.close()
    assert len(link._said) == KEPT_BYTES
    assert link.last_line.endswith("end")


def test_a_host_that_reads_nothing_stops_no_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is told is longer than a pipe."""
    monkeypatch.setattr(travel, "known", lambda _: {f"{n:08x}": (1, None) for n in range(20_000)})
    told = Told()
    links.pull({"a": HostLink(memlab="cat rows")}, tmp_path / "here.db", nothing, told)
    assert told == []


def test_a_sweep_over_a_link_says_that_it_lives() -> None:
    words = [sys.executable, "-m", "memlab", "sweep", *TINY, "--blocks", "1", "--jsonl", "-q"]
    done = subprocess.run([*words, "--stop-on-input"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("\n")
    assert done.stdout.rstrip().splitlines()[-1].startswith('{"row":"end"')


def test_a_host_that_does_not_stop_is_left(tmp_path: Path) -> None:
    link = Link(["bash", "-c", "while :; do echo; sleep 0.1; done"], 60.0)
    assert link.readline(9) == b"\n"
    link.stop(0.5)
    while link.readline(9):
        pass
    link.close()
    assert link.is_silent
    assert link.code == -9
