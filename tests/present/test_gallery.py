"""A gallery: what its files say, what they do not, and what is left out of its pages."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pyarrow.dataset as dataset
import pytest
from command import memlab as command

from memlab import gallery, recorded
from memlab.errors import BadRequest, CannotRun
from memlab.results import Run
from memlab.results.redacted import host_id, redacted
from memlab.store import PointRow, Store

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> =cmd|' /C calc'!A0"
SECRET = "lab-7.example.org"
HOME = "/home/eve/secret project/file"
BLOCKS = 10  # of the recorded run's 25: enough for its verdicts


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run of mmap-write on five machines; on the two with a newer kernel mmap and
    write have changed places. A few samples failed, and said where."""
    path = tmp_path_factory.mktemp("gallery") / "results.db"
    with Store(recorded.store("mmap-write")) as opened:
        base = opened.find("mmap-write")
        points = opened.points(base.id)
        samples = [one for one in opened.samples(base.id) if one.block < BLOCKS]
    swap = {"mmap": "write", "write": "mmap"}
    for number, sample in enumerate(samples):
        if number % 100 == 99:
            said = f"open {HOME}: ENOENT on {SECRET}"
            samples[number] = replace(sample, outcome="error", detail=said, raw=None)
    with Store(path, create=True) as opened:
        for number, host in enumerate("abcde"):
            odd = host in "de"
            environment = {
                **base.environment,
                "kernel_release": "6.17.8" if odd else "6.12.41",
                "host_name": SECRET,
                "machine_id_hash": f"{number}",
                "kernel_command_line": f"root={HOME}",
                "filesystems": {"dir": {"type": "ext4", "path": HOME}},
                "cpu_model": EVIL if host == "e" else "a CPU",
            }
            row = replace(
                base,
                id=f"a000000{number}",
                origin=host,
                name=EVIL if host == "e" else None,
                environment=environment,
                request={**base.request, "directory": HOME},
            )
            own = [
                PointRow(p.point, {**p.levels, "method": swap[p.levels["method"]]}, p.control)
                if odd and p.levels["method"] in swap
                else p
                for p in points
            ]
            opened.add_run(row, own)
            opened.add_samples(row.id, opened.begin_session(row.id), samples)
            opened.end_session(row.id, 1, 1.0, "blocks")
    return path


def runs(store: Path) -> list[Run]:
    with Store(store) as opened:
        return [Run(row, store) for row in opened.runs()]


@pytest.fixture(scope="module")
def made(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "gallery"
    for run in runs(store):
        gallery.add(run, folder)
    assert gallery.build(folder).wrong == {}
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copied"))


class Links(HTMLParser):
    """Where a page leads, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.hrefs += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_a_page_says_on_how_many_machines_a_claim_holds_and_since_when(made: Path) -> None:
    said = [path.read_text() for path in (made / "claims/mmap-write").glob("*.html")]
    assert any("reproduced on 3 of 5 machines, not since 6.17.8" in text for text in said)
    assert any("kernel release" in text for text in said)  # tells the machines apart
    assert len([*(made / "machines").glob("*.html")]) == 5


def test_every_link_leads_to_a_file_of_the_gallery(made: Path) -> None:
    pages = [*made.rglob("*.html")]
    assert len(pages) > 10
    for page in pages:
        found = Links(page.read_text())
        assert found.hrefs
        for href in found.hrefs:
            target = (page.parent / unquote(href)).resolve()
            assert target.is_file(), (page, href)
            assert made.resolve() in target.parents


def test_text_of_others_is_no_markup(made: Path) -> None:
    pages = [path.read_text() for path in made.rglob("*.html")]
    assert any("&lt;script&gt;alert(1)" in text for text in pages)
    assert not {"script", "img"} & {tag for text in pages for tag in Links(text).tags}


def test_nothing_names_the_host_its_user_or_its_folders(made: Path) -> None:
    names = [SECRET, HOME, "/home", "secret project"]
    for path in (path for path in made.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert not [name for name in names if name.encode() in content], path
        assert SECRET not in str(path)
    details = dataset.dataset(made / "data", format="parquet").to_table(columns=["detail"])
    said = {one for one in details["detail"].to_pylist() if one}
    assert said == {"open [path 1]: ENOENT on [host]"}


def test_the_samples_are_partitioned_and_whole(made: Path, store: Path) -> None:
    table = dataset.dataset(made / "data", format="parquet", partitioning="hive").to_table()
    assert set(table["experiment"].to_pylist()) == {"mmap-write"}
    assert set(table["host"].to_pylist()) == {host_id(r.environment) for r in runs(store)}
    assert table.num_rows == sum(len(run.samples) for run in runs(store))
    (one,) = (run for run in runs(store) if run.id == "a0000000")
    values = table.to_pandas().query("run == 'a0000000'").sort_values("sample")["time_2gib"]
    assert values.to_numpy() == pytest.approx(one.samples.column("time_2gib"), nan_ok=True)


def test_unredacted_keeps_names(store: Path, tmp_path: Path) -> None:
    gallery.add(runs(store)[0], tmp_path / "g", redacted=False)
    text = (tmp_path / "g/runs/experiment=mmap-write/host=a/a0000000.json").read_text()
    assert json.loads(text)["environment"]["host_name"] == SECRET


def test_a_guest_is_a_machine_of_its_own_under_each_kernel(store: Path, tmp_path: Path) -> None:
    hosts = []
    for run, kernel in zip(runs(store), ("6.1.0-56-amd64", "7.3.4+deb13-amd64"), strict=False):
        seen = {**run.environment, "kernel_release": kernel, "host_name": "guest"}
        request = {**run.row.request, "guest": {"kernel": "/boot/vmlinuz"}}
        run.row = replace(run.row, origin=None, environment=seen, request=request)
        hosts.append(gallery.add(run, tmp_path / "site").host)
    assert [host.partition("-")[0] for host in hosts] == ["host"] * 2
    assert [host.split("-", 2)[2] for host in hosts] == ["6.1.0-56-amd64", "7.3.4-deb13-amd64"]
    assert gallery.build(tmp_path / "site").wrong == {}
    (page, *_) = (tmp_path / "site/claims/mmap-write").glob("*.html")
    assert "Older runs" not in page.read_text()


def test_of_what_tells_machines_apart_the_kernel_comes_first(made: Path) -> None:
    pages = [path.read_text() for path in (made / "claims/mmap-write").glob("*.html")]
    told = [page.partition("What tells the machines apart")[2] for page in pages]
    first = [re.findall(r"<th[^>]*>([^<]+)</th>", one)[3] for one in told if one]
    assert first
    assert set(first) == {"kernel release"}


def test_verdicts_are_those_of_the_run(store: Path) -> None:
    """Leaving names out changes no number."""
    run = runs(store)[0]
    seen = redacted(run)
    assert [s.medians for s in seen.summaries] == [s.medians for s in run.summaries]
    assert run.samples.details == (f"open {HOME}: ENOENT on {SECRET}",)


def test_two_galleries_are_one_when_their_files_are(
    store: Path, made: Path, tmp_path: Path
) -> None:
    whole = {str(p.relative_to(made)): p.read_bytes() for p in made.rglob("*.html")}
    first, second = tmp_path / "first", tmp_path / "second"
    for number, run in enumerate(runs(store)):
        gallery.add(run, (first, second)[number % 2])
    gallery.build(second)
    for part in ("data", "runs"):
        shutil.copytree(second / part, first / part, dirs_exist_ok=True)
    assert gallery.build(first).wrong == {}
    assert {str(p.relative_to(first)): p.read_bytes() for p in first.rglob("*.html")} == whole


def test_pages_of_what_has_gone_go_too(copied: Path) -> None:
    (gone,) = copied.rglob("a0000004.json")
    gone.unlink()
    gallery.build(copied)
    assert not (copied / f"machines/{gone.parent.name.removeprefix('host=')}.html").exists()
    assert len([*(copied / "machines").iterdir()]) == 4


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"host": "../../../etc"}, "pattern|regex"),
        ({"experiment": "a/b"}, "pattern|regex"),
        ({"host": "another"}, "it says that it is runs/experiment=mmap-write/host=another/"),
        ({"format": 2}, "Invalid"),
        ({"more": 1}, "unknown field"),
        ({"samples": "many"}, "Expected `int`"),
        ({"sha256": "0"}, "not the ones that it is of"),
        ({"samples": 9999}, r"it says 9999 samples in \d+ blocks; beside it lie \d+ in \d+"),
        ({"blocks": 9999}, r"it says \d+ samples in 9999 blocks; beside it lie \d+ in \d+"),
        ({"samples": -1}, "Expected `int` >= 0"),
    ],
)
def test_a_forged_record_is_left_out_and_named(
    copied: Path, fields: dict[str, object], why: str
) -> None:
    (path,) = copied.rglob("a0000001.json")
    change(path, **fields)
    built = gallery.build(copied)
    ((name, said),) = built.wrong.items()
    assert name.endswith("a0000001.json")
    assert re.search(why, said), said
    assert len(built.records) == 4


@pytest.mark.parametrize("more", ["points", "claims"])
def test_no_number_rests_on_more_samples_than_there_are(copied: Path, more: str) -> None:
    (path,) = copied.rglob("a0000001.json")
    found = json.loads(path.read_text())
    if more == "points":
        found["points"][0]["n"] = 10**6
    else:
        found["claims"][0]["verdicts"][0]["samples"] = 10**6
    change(path, **found)
    (said,) = gallery.build(copied).wrong.values()
    assert re.fullmatch(r"a number of it rests on more samples than the \d+ that there are", said)


def test_a_record_of_another_runs_samples_is_left_out(copied: Path) -> None:
    (one,) = copied.rglob("a0000001.parquet")
    (other,) = copied.rglob("a0000002.parquet")
    shutil.copy(other, one)
    (path,) = copied.rglob("a0000001.json")
    change(path, sha256=hashlib.sha256(one.read_bytes()).hexdigest())
    assert [*gallery.build(copied).wrong.values()] == ["the samples beside it are of another run"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_samples_that_are_no_parquet_are_named(copied: Path, content: bytes) -> None:
    (samples,) = copied.rglob("a0000001.parquet")
    samples.write_bytes(content)
    (path,) = copied.rglob("a0000001.json")
    change(path, sha256=hashlib.sha256(content).hexdigest())
    assert len(gallery.build(copied).wrong) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"null"])
def test_what_is_no_record_is_left_out_and_named(copied: Path, content: bytes) -> None:
    (copied / "runs/x.json").write_bytes(content)
    assert [*gallery.build(copied).wrong] == ["runs/x.json"]


def test_a_changed_file_of_samples_is_found(copied: Path) -> None:
    (path,) = copied.rglob("a0000002.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    assert "not the ones that it is of" in next(iter(gallery.build(copied).wrong.values()))


def test_a_run_that_is_there_twice_is_shown_once(copied: Path) -> None:
    (path,) = copied.rglob("a0000003.json")
    twin = path.parents[1] / "host=twin"
    shutil.copytree(path.parent, twin)
    change(twin / path.name, host="twin")
    assert "there twice" in next(iter(gallery.build(copied).wrong.values()))


@pytest.mark.parametrize("name", ["index.html", "machines", "runs/link.json"])
def test_nothing_is_written_through_a_link(copied: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    place = copied / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    with pytest.raises(CannotRun, match="a gallery has files alone"):
        gallery.build(copied)
    assert [*target.iterdir()] == []


def test_a_folder_with_something_else_is_left_alone(store: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(CannotRun, match="is not a gallery and is not empty"):
        gallery.add(runs(store)[0], tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"


def test_a_run_of_a_users_command_is_not_published(store: Path) -> None:
    run = runs(store)[0]
    run.row = replace(run.row, request={**run.row.request, "subject": {"argv": ["secret"]}})
    with pytest.raises(BadRequest, match="is of a command"):
        redacted(run)


def test_the_command(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    done = command("publish", str(folder), "a:last", "--store", str(store))
    assert (done.returncode, done.stdout) == (0, f"{folder}/index.html\n"), done.stderr
    before = {path: path.stat().st_ino for path in folder.rglob("*.parquet")}
    assert command("publish", str(folder), "--store", str(store)).returncode == 0
    after = {path: path.stat().st_ino for path in folder.rglob("*.parquet")}
    assert len(after) == 5
    assert before.items() <= after.items()  # what is there is not written again
    (folder / "runs/x.json").write_text("{}")
    done = command("publish", str(folder), "--index")
    assert done.returncode == 3
    assert f"memlab: {folder}/runs/x.json: " in done.stderr
    assert command("publish", str(folder), "last", "--index").returncode == 2
