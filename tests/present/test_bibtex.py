"""How a run is cited: what a reader needs to find it, in a form that BibTeX reads."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from quick import mostly_slow

from memlab import api, published, recorded
from memlab.cli import cli
from memlab.present import bibtex


@pytest.mark.parametrize("name", mostly_slow(recorded.names(), "mmap-write", "coop-reclaim"))
def test_every_recorded_run_is_cited_with_its_studies(name: str) -> None:
    run = api.load(name, example=True)
    text = bibtex.text(run)
    keys = re.findall(r"^@misc\{(.+),$", text, re.M)
    assert keys == [f"memlab-{run.id}", "memlab", *run.experiment.sources]
    assert text.count("{") == text.count("}")
    assert f"memlab {run.row.memlab}: {len(run.samples):,} samples" in text
    for source in map(published.load, run.experiment.sources):
        assert str(source.year or "") in text
    assert not re.search(r"(?<!\\)[&%$#_]", text.replace("memlab-", ""))


def test_export_prints_it_or_writes_it(tmp_path: Path) -> None:
    asked = ["export", "mmap-write", "--example", "--format", "bibtex"]
    printed = CliRunner().invoke(cli, asked)
    assert printed.exit_code == 0
    file = tmp_path / "run.bib"
    assert CliRunner().invoke(cli, [*asked, "-o", str(file)]).output == f"{file}\n"
    assert file.read_text() == printed.output
