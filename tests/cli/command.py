"""`memlab` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

Command = Callable[..., subprocess.CompletedProcess[str]]


def memlab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`memlab ARGUMENTS`, with these variables added to the environment."""
    return subprocess.run(
        [sys.executable, "-m", "memlab", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
