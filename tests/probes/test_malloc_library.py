"""Whose malloc a program calls is found whichever way the program is linked."""

import os
import subprocess
from pathlib import Path

import needs
import pytest

from memlab.experiment import Malloc
from memlab.observe import allocators

PROBES = Path(__file__).parents[2] / "probes"
# Its code takes malloc's address: that gives a position-dependent program an entry of its own.
PROGRAM = r"""
#include "support/malloc_library.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	void *(*volatile taken)(size_t) = malloc;
	char file[256], why[256];

	free(taken(1));
	malloc_file(file, sizeof(file));
	puts(file);
	for (int library = 0; library <= MALLOC_LIBRARY_OTHER; library++)
		printf("%d", malloc_is_of((enum malloc_library)library, "", why, sizeof(why)));
	puts("");
	return 0;
}
"""
LINKED = {"pie": ["-fPIE", "-pie"], "no-pie": ["-fno-pie", "-no-pie"]}
MALLOCS = {"glibc": "10000", "jemalloc": "01000", "tcmalloc": "00100", "mimalloc": "00010"}


@pytest.mark.parametrize("allocator", needs.each("glibc", *allocators.LIBRARIES))
@pytest.mark.parametrize("linked", LINKED)
def test_malloc_is_the_librarys_and_not_the_programs(
    linked: str, allocator: str, tmp_path: Path
) -> None:
    environ = allocators.environ(Malloc(allocator, "default"))
    source, program = tmp_path / "whose.c", tmp_path / "whose"
    source.write_text(PROGRAM)
    library = PROBES / "support" / "malloc_library.c"
    flags = ["-D_GNU_SOURCE", f"-I{PROBES}", *LINKED[linked], "-O2", "-Wall", "-Werror"]
    subprocess.run(["cc", *flags, "-o", program, source, library, "-ldl"], check=True)
    done = subprocess.run(
        [program], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    file, told = done.stdout.split()
    assert told == MALLOCS[allocator]
    assert Path(file).name.startswith(f"lib{'c.so' if allocator == 'glibc' else allocator}")
