"""Files of others are read in pieces: a mapping of one that is cut short would kill memlab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memlab.errors import BadRequest
from memlab.observe import allocators, files
from memlab.run import kernel


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE_BYTES", 32)


def test_a_file_that_is_cut_short_meanwhile_ends_the_pieces(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_bytes(bytes(1000))
    with files.opened(path) as file:
        pieces = files.pieces(file, 4)
        next(pieces)
        path.write_bytes(b"")
        assert sum(map(len, pieces)) < 1 << 16  # what had been read ahead


def test_a_hole_of_any_size_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST_BYTES", 100)
    with (path := tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    with files.opened(path) as read:
        assert [len(piece) for piece in files.pieces(read, 4)] == [32, 36, 36, 8]


@pytest.mark.parametrize("at", range(0, 70, 7))
def test_what_lies_across_two_pieces_is_found(tmp_path: Path, at: int) -> None:
    (library := tmp_path / "libtcmalloc.so.4").write_bytes(bytes(at) + b"gperftools 2.10\0")
    assert allocators.version_of("tcmalloc", library) == (2, 10)
    banner = b"6.12.1-arm64 (x@y) #1 SMP " + 50 * b"long "
    head = bytearray(512 + at)
    head[0x38:0x3C] = b"ARM\x64"
    (image := tmp_path / "Image").write_bytes(bytes(head) + b"Linux version " + banner + b"\n")
    found = kernel.read(image)
    assert (found.release, found.banner) == ("6.12.1-arm64", banner.decode())


def test_a_fifo_is_no_kernel_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Image")
    with pytest.raises(BadRequest, match="is not a bootable kernel"):
        kernel.read(tmp_path / "Image")


READS = """
import sys
from pathlib import Path
from memlab.observe import files
(place := Path(sys.argv[1], "instances/memlab-test")).mkdir()
try:
    files.regular(place / "trace_pipe", 9)
except BlockingIOError as error:
    print(error.strerror)
finally:
    place.rmdir()
"""


@pytest.mark.needs("root", "a mount namespace")
def test_a_file_of_the_kernels_that_blocks_is_not_waited_for(tmp_path: Path) -> None:
    """As /proc/kmsg and trace_pipe do, which are regular files."""
    words = ["unshare", "-m", "sh", "-c", 'mount -t tracefs none "$1" && "$0" -c "$2" "$1"']
    done = subprocess.run(
        [*words, sys.executable, str(tmp_path), READS],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("it would be waited for\n", "")
