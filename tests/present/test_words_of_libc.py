"""Words for the levels of a libc."""

import pytest

from memlab import experiments
from memlab.files import folders
from memlab.present import words


@pytest.mark.parametrize("version", ["2.36", "2.43"])
def test_a_libc_of_memlabs_own_folder_is_called_by_its_version(version: str) -> None:
    at = {"glibc": str(folders.user("cache") / "libc" / version), "lock": "off"}
    assert words.levels(experiments.load("stack-map"), at, ["glibc", "lock"]) == f"{version}, off"


def test_another_folder_is_called_by_its_path() -> None:
    assert words.levels(experiments.load("stack-map"), {"glibc": "/opt/libc"}, ["glibc"]) == (
        "/opt/libc"
    )
