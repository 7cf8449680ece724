"""The report: one well-formed file without a network, every number with its run, text escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from quick import mostly_slow
from report_runs import ENVIRONMENT, HASH, plain_figures, printed, stored

from memlab.cli import cli
from memlab.errors import CannotRun
from memlab.experiment import At
from memlab.present import report
from memlab.present.figures import layout as figure_page
from memlab.present.report import provenance
from memlab.results import Run

VOID = {"meta", "br", "hr", "img", "link", "input"}
EVIL = "<script>alert('x')</script>"
PARTS = [
    "In short",
    "Verdicts",
    "Figures",
    "Published tables beside this run",
    "Every point",
    "Noise",
    "Machine",
]


class Page(HTMLParser):
    """Reads a page; a tag that is not closed where it should be is an error."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> is not HTML"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            return
        self.text.append(data)
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            level, text = self.headings[-1]
            self.headings[-1] = level, text + data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name))]


def partly(at: At) -> float | None:
    return None if at["size"] == 100 else printed(at)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with failed points, and with mark-up wherever a user can put text."""
    return stored(
        tmp_path_factory.mktemp("<b>"),
        partly,
        name=EVIL,
        blocks=6,
        size=[1, 100, 1024, 2048],
        detail=f"mmap: {EVIL}",
        environment={**ENVIRONMENT, "host_name": EVIL, "cpu_model": f"CPU & {EVIL}"},
        request={"levels": {"size": [1, 100, 1024, 2048]}, "directory": "/tmp/a b", "cpus": [1, 3]},
    )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("other")
    return stored(folder, blocks=6, run_id="ef56ab78", size=[1024, 2048])


@pytest.fixture(scope="module")
def html(run: Run) -> str:
    return report.html([run])


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="module")
def both(run: Run, other: Run) -> Page:
    with plain_figures():
        return Page(report.html([run, other, other]))


def test_it_needs_no_network_and_no_script(html: str, page: Page) -> None:
    assert "http" not in html.lower()
    assert re.findall(r"url\((?!#)", html) == []
    assert "@import" not in html
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert page.values("src") == []
    assert all(value.startswith("#") for value in page.values("href"))
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_what_a_user_wrote_is_text(html: str, page: Page) -> None:
    assert EVIL not in html
    assert "<b>" not in html
    assert f"({EVIL})" in page.words  # the run's name
    assert f"enomem: mmap: {EVIL}" in page.words
    assert f"CPU & {EVIL}" in page.words


@pytest.mark.parametrize("which", mostly_slow(["page", "both"], "page"))
def test_ids_are_unique_and_every_reference_leads_to_one(
    which: str, request: pytest.FixtureRequest
) -> None:
    read: Page = request.getfixturevalue(which)
    ids = read.values("id")
    assert len(set(ids)) == len(ids)
    inside = " ".join(value or "" for _, attributes in read.tags for value in attributes.values())
    used = set(re.findall(r"url\(#([^)]+)\)", inside)) | {h[1:] for h in read.values("href")}
    used |= set(read.values("aria-labelledby"))
    assert used
    assert used <= set(ids)


def test_every_figure_is_read_out_with_its_run_and_samples(run: Run, page: Page) -> None:
    drawn = page.of("svg")
    assert (
        len(drawn) == 5
    )  # claims, the experiment's own, its samples, the published table, the outcomes
    for attributes in drawn:
        assert attributes["role"] == "img"
        assert f"Run {run.id}, {len(run.samples)} samples." in (attributes["aria-label"] or "")
        assert "viewbox" in attributes
        assert not {"width", "height"} & attributes.keys()


def test_the_text_of_all_figures_has_one_size(html: str, page: Page) -> None:
    """A figure is as wide on the page as it was drawn, beside the widest kind."""
    drawn = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert drawn
    for attributes in drawn:
        width = float(str(attributes["viewbox"]).split()[2])
        assert attributes["style"] == f"--wide: {width / figure_page.WIDE:.5g}"
    assert ".card svg" in html
    assert "max-width: calc(60rem * var(--wide, 1))" in html


def test_headings_are_in_order(page: Page, both: Page) -> None:
    for read, count in ((page, 1), (both, 3)):
        levels = [level for level, _ in read.headings]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))
        assert [text for _, text in read.headings].count("Verdicts") == count
    assert [text for level, text in page.headings if level == 3][: len(PARTS)] == PARTS
    assert [text for level, text in page.headings if level == 2][1:] == [
        "How to read this report",
        "Where each number comes from",
    ]


def test_every_header_cell_has_a_scope_and_every_scroll_box_a_name(page: Page) -> None:
    assert page.of("th")
    assert {attributes.get("scope") for attributes in page.of("th")} <= {"col", "row", "rowgroup"}
    boxes = [a for a in page.of("div") if "scroll" in (a.get("class") or "").split()]
    assert len(boxes) == len(page.of("table"))
    assert all(a["aria-label"] and a["tabindex"] == "0" and a["role"] == "region" for a in boxes)


def test_the_numbers_are_there_with_their_counts(run: Run, page: Page) -> None:
    assert "at 1 byte per call a mapping is over 10 times faster than write(2)" in page.words
    assert "basis: >300 s against 22.14 s" in page.words
    assert "12 samples of run ab12cd34" in page.words
    assert ">300 s 602 s ±0.21 % <2" in page.words
    assert f"What disturbed the {len(run.samples)} samples of run ab12cd34" in page.words
    assert "migrated" in page.words
    assert "turbo unknown" in page.words
    assert "smt_active no" in page.words
    assert "6 enomem" in page.words


def test_a_verdict_stands_beside_each_claim(run: Run, page: Page) -> None:
    badges = [a["class"] for a in page.of("span") if "word" in (a.get("class") or "").split()]
    assert len(badges) == len(run.experiment.claims)
    assert "word reproduced" in badges


def test_a_long_path_breaks_in_the_verdicts_instead_of_widening_them(html: str) -> None:
    (rule,) = re.findall(r"^\.verdicts table \{(.*?)\}", html, re.MULTILINE)
    assert "table-layout: fixed" in rule
    (rule,) = re.findall(r"^\.verdicts :is\(th, td\) \{(.*?)\}", html, re.MULTILINE)
    assert "overflow-wrap: anywhere" in rule
    head = html.partition('class="scroll verdicts"')[2].partition("</thead>")[0]
    # What the controls say stands below the evidence: a column of it was a quarter of the width.
    assert re.findall(r">(\w+)</th>", head) == ["claim", "where", "verdict", "evidence"]


def test_the_source_names_the_rows_the_probe_and_the_command(run: Run, page: Page) -> None:
    assert f"rows 1 to {len(run.samples)} of the store" in page.words
    assert f"probes/mmap_write.c, sha256 {HASH}" in page.words
    assert "memlab sweep mmap-write -p size=1B,100B,1KiB,2KiB --preset quick" in page.words
    assert "--blocks 6 --design seed=7,cpus=1,3 --dir '/tmp/a b'" in page.words


def test_the_command_reads_back_as_the_levels_that_were_asked_for(tmp_path: Path) -> None:
    asked = {"size": [1, 5000], "slice": [0.1, 0.012345], "sync": [True, False], "method": ["mmap"]}
    made = stored(tmp_path, blocks=1, request={"levels": asked, "budget_s": 90.0})
    command = provenance.again(made).split()
    given = [command[i + 1].split("=") for i, part in enumerate(command) if part == "-p"]
    kinds = {factor.name: factor.kind for factor in made.experiment.factors}
    read = {name: [kinds[name].check(v) for v in levels.split(",")] for name, levels in given}
    assert read == asked
    assert command[command.index("--budget") + 1] == "90s"


def test_the_command_of_a_guests_run_boots_it_again(tmp_path: Path) -> None:
    guest = {"kernel": "/boot/vmlinuz-6.1", "memory_bytes": 2**30, "cpus": 2, "append": "mem=1G"}
    guest |= {"directory": None}
    request = {"guest": guest, "directory": "/var/tmp"}
    made = stored(tmp_path, blocks=1, request=request)
    assert (
        "--in guest,kernel=/boot/vmlinuz-6.1,memory=1073741824,cpus=2,append=mem=1G"
    ) in provenance.again(made)
    assert "--dir" not in provenance.again(made)
    assert "iommu" not in provenance.again(made)
    with_iommu = stored(tmp_path / "iommu", blocks=1, request={"guest": guest | {"iommu": True}})
    assert ",cpus=2,iommu,append=" in provenance.again(with_iommu)


def test_emulated_times_are_labelled(page: Page, tmp_path: Path) -> None:
    emulated, real = (
        stored(tmp_path / str(told), blocks=1, environment={"emulated_time": told})
        for told in (True, False)
    )
    said = "emulated: times in an emulated guest are not the machine's"
    assert said in figure_page.machine(emulated)
    with plain_figures():
        words = Page(report.html([emulated])).words
    assert said in words
    assert ", beside this run" in page.words  # the chart of a published table
    assert ", beside this run" not in words
    assert "emulated" not in figure_page.machine(real)


@pytest.mark.slow
def test_the_same_runs_give_the_same_text(run: Run, html: str) -> None:
    assert report.html([run]) == html


def test_several_runs_have_a_section_each_and_a_list(both: Page) -> None:
    titles = [text for level, text in both.headings if level == 2]
    assert titles[0] == "The runs compared"
    assert titles[2:4] == ["mmap-write, run ef56ab78"] * 2
    links = [h for h in both.values("href") if h.startswith("#run-")]
    assert len(set(links)) == 3


def test_a_run_without_samples_is_a_report_too(tmp_path: Path) -> None:
    read = Page(report.html([stored(tmp_path, blocks=0)]))
    assert "0 samples" in read.words
    assert "not measured" in read.words


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_words_stand_out_from_what_is_behind_them(html: str, scheme: str) -> None:
    """WCAG 2.1, 1.4.3: at least 4.5 to 1 for text."""
    block = re.findall(r":root \{(.*?)\}", html, re.S)[["light", "dark", "print"].index(scheme)]
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    pairs = [(ink, paper) for ink in ("ink", "quiet", "link") for paper in ("paper", "head")]
    pairs += [(word, f"{word}-paper") for word in ("good", "bad", "open")]
    poor = [(a, b) for a, b in pairs if contrast(found[a], found[b]) < 4.5]
    assert poor == []


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, WCAG 2.1."""
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def linear(colour: str) -> Iterator[float]:
    for i in (1, 3, 5):
        c = int(colour[i : i + 2], 16) / 255
        yield c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4


def test_the_command_writes_a_file_and_says_where(other: Run) -> None:
    folder = other.store_path.parent
    with plain_figures():
        done = CliRunner().invoke(cli, ["--store", str(other.store_path), "report"])
        shown = CliRunner().invoke(cli, ["--store", str(other.store_path), "report", "-o", "-"])
        wanted = report.html([other])
    made = folder / "figures" / "report-ef56ab78.html"
    assert done.exit_code == 0, done.output
    assert done.output == f"{made}\n"
    assert shown.output == made.read_text(encoding="utf-8") == wanted
    assert [path.name for path in made.parent.iterdir()] == [made.name]


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_one_line_and_leaves_nothing(
    other: Run, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(CannotRun, match=r"cannot write .*file"):
        report.write([other], file / "report.html")
    folder = tmp_path / "report.html"
    folder.mkdir()
    with pytest.raises(CannotRun, match=r"cannot write .*report\.html"):
        report.write([other], folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home", "report.html"]
    assert file.read_text() == "kept"
