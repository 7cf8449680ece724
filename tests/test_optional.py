"""Where nothing optional is installed, what needs it is skipped by name, and nothing fails."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import needs
import pytest

TESTS = Path(__file__).parent
OPTIONAL = {name: need for name, need in needs.NEEDS.items() if need.files is not tuple}
WORDS = re.compile(r"\b(" + "|".join(map(re.escape, OPTIONAL)) + r")\b")
# Of a file that is not there, and of no other program that lies behind the same link.
HIDE = "mount --bind /dev/null {}"


def hidden() -> list[Path]:
    """The files of everything optional that is here."""
    found = {path for need in OPTIONAL.values() for path in need.files() if path.is_file()}
    return sorted({path.resolve() for path in found})


@pytest.mark.slow
@pytest.mark.needs("host root", "a mount namespace")
def test_without_anything_optional_nothing_fails(tmp_path: Path) -> None:
    """The quick tests of each file that names something optional, in a mount namespace in which an
    empty file lies on it."""
    files = [path for path in TESTS.rglob("test_*.py") if WORDS.search(path.read_text())]
    own = {Path(__file__), *TESTS.glob("bench/*")}
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    pytest_ += ["-m", "not slow and not changes_host", f"--basetemp={tmp_path / 'inner'}"]
    pytest_ += [str(path) for path in sorted({*files} - own)]
    steps = [HIDE.format(shlex.quote(str(path))) for path in hidden()]
    script = " && ".join([*steps, "exec " + shlex.join(pytest_)])
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = set(re.findall(r"needs ([^:]+): ", done.stdout))
    # The others are asked for by slow tests alone.
    asked = {"dpkg-deb", "jemalloc", "mimalloc", "qemu", "ssh", "tcmalloc"}
    assert skipped >= asked, done.stdout
