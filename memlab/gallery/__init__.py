"""A gallery: runs as files that anyone can read, and pages about them that need no server.

    gallery.json                                     says that the folder is a gallery
    data/experiment=E/host=H/RUN.parquet             a run's samples, and nothing but Parquet
    runs/experiment=E/host=H/RUN.json                the run: its machine, medians and verdicts
    index.html, experiments/, claims/, machines/     pages, made from the JSON files that are there

Two galleries become one when their files are copied together and the pages are made again. What
lies there may come from anywhere: a file that is not a record, or not of the samples beside it, is
left out and named.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from memlab.errors import BadRequest, CannotRun
from memlab.files import output
from memlab.gallery import pages, record
from memlab.gallery.record import Record
from memlab.machines.fleet.judge import HERE
from memlab.present import exports
from memlab.present.machine import kernel_of
from memlab.results import Run
from memlab.results.redacted import redacted as without_names

_MARK, _MARKED = "gallery.json", b'{"memlab-gallery": 1}\n'
_FOLDERS = ("experiments", "claims", "machines")  # whose pages are made again
_LARGEST = 64 << 20  # bytes of a record
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Built:
    """The runs that a gallery shows, and by file what is wrong with those that it does not."""

    records: list[Record]
    wrong: dict[str, str]


def add(run: Run, folder: Path, *, redacted: bool = True) -> Record:
    """Write a run's files into a gallery. BadRequest for a run that cannot be in one, CannotRun
    where the folder cannot be written or Parquet's library is missing."""
    _check(folder)
    shown = without_names(run) if redacted else run
    seen = run.environment.get("host_name")
    host = shown.row.origin or (seen if isinstance(seen, str) else HERE)
    if run.row.request.get("guest"):  # under each kernel a machine of its own
        host = f"{host}-{re.sub('[^0-9A-Za-z.-]', '-', kernel_of(run.environment))}"
    content = b"".join(exports.parquet(shown))
    digest = hashlib.sha256(content).hexdigest()
    try:
        made = record.of(shown, host, digest, redacted=redacted)
    except ValueError as error:
        raise BadRequest(f"run {run.id} cannot be in a gallery: {error}") from None
    text = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
    _write(
        {
            folder / _MARK: _MARKED,
            folder / made.samples_file: content,
            folder / made.file: text,
        }
    )
    return made


def there(folder: Path, run: str, samples: int, *, redacted: bool) -> bool:
    """Whether a gallery has a run already, as it is now."""
    for path in folder.glob(f"runs/experiment=*/host=*/{run}.json"):
        try:
            found = _record(folder, path)
        except (OSError, ValueError):
            return False
        return (found.samples, found.redacted) == (samples, redacted)
    return False


def build(folder: Path) -> Built:
    """Make the pages from the records that are there; pages of what has gone go too. CannotRun
    where the folder is not a gallery or cannot be written."""
    _check(folder)
    exports.arrow()
    built = Built([], {})
    runs: set[str] = set()
    for path in sorted((folder / "runs").rglob("*.json")):
        name = str(path.relative_to(folder))
        try:
            found = _record(folder, path)
            if found.run in runs:
                raise ValueError(f"run {found.run} is there twice")
            _check_samples(folder / found.samples_file, found)
            built.records.append(found)
            runs.add(found.run)
        except Exception as error:  # whatever lies there, the other runs are shown
            built.wrong[name] = getattr(error, "strerror", None) or str(error) or repr(error)
    made = {folder / name: text.encode() for name, text in pages.site(built.records).items()}
    _write({folder / _MARK: _MARKED} | made)
    for old in (path for part in _FOLDERS for path in (folder / part).rglob("*.html")):
        if old not in made:
            old.unlink()
    return built


def _check(folder: Path) -> None:
    """CannotRun unless the folder is new, empty or a gallery, with files and folders alone: through
    a link that came with someone's files, others would be written."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / _MARK).is_file():
        raise CannotRun(f"{folder} is not a gallery and is not empty: name another folder")
    for path in _walk(folder):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise CannotRun(f"{path} is not a file: a gallery has files alone; remove it")


def _walk(folder: Path) -> Iterator[Path]:
    """Everything that memlab reads or writes; what else lies there, such as .git, is left alone."""
    for top in sorted(folder.iterdir()):
        if top.name in ("data", "runs", "index.html", _MARK, *_FOLDERS):
            yield top
            for where, folders, files in os.walk(top):
                yield from (Path(where) / name for name in (*folders, *files))


def _record(folder: Path, path: Path) -> Record:
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST >> 20} MiB")
    found = record.read(path.read_bytes())
    if folder / found.file != path:
        raise ValueError(f"it says that it is {found.file}")
    return found


def _check_samples(path: Path, found: Record) -> None:
    """ValueError unless the samples are those that a record is of, and as many as it says."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_AT_ONCE):
            digest.update(part)
    if digest.hexdigest() != found.sha256:
        raise ValueError("the samples beside it are not the ones that it is of")
    runs, samples, blocks = exports.counted(path)
    if runs - {found.run}:
        raise ValueError("the samples beside it are of another run")
    if (found.samples, found.blocks) != (samples, blocks):
        raise ValueError(
            f"it says {found.samples} samples in {found.blocks} blocks; beside it lie {samples} in "
            f"{blocks}"
        )
    said = [verdict.samples for claim in found.claims for verdict in claim.verdicts]
    if max([*said, *(point.n for point in found.points)], default=0) > samples:
        raise ValueError(f"a number of it rests on more samples than the {samples} that there are")


def _write(contents: dict[Path, bytes]) -> None:
    try:
        for parent in {path.parent for path in contents}:
            output.make_folder(parent)
        output.write(contents)
    except OSError as error:
        raise CannotRun(f"cannot write {error.filename}: {error.strerror}") from None
