"""What is wrong with a guest that was asked for, whatever the machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from memlab.errors import BadRequest
from memlab.text import units

if TYPE_CHECKING:  # subprocesses and sockets, which the command line's help has no use for
    from memlab.machines.guest.machine import GuestSpec

LEAST_BYTES = 256 * units.MiB  # less, and Debian's kernel with Python does not come up
CPUS_MAX = 255


def check(spec: GuestSpec) -> None:
    """BadRequest where no guest could be so."""
    if spec.memory_bytes < LEAST_BYTES:
        least = units.format_size(LEAST_BYTES)
        raise BadRequest(f"memory: a guest comes up with {least} or more")
    if spec.cpus is not None and not 1 <= spec.cpus <= CPUS_MAX:
        raise BadRequest(f"cpus: a guest has 1 to {CPUS_MAX} CPUs, not {spec.cpus}")
    try:
        shlex.split(spec.append)
    except ValueError as error:
        raise BadRequest(f"append: {error}") from None
    if '"' in spec.append or "'" in spec.append:
        raise BadRequest("append: a quote cannot be passed on to the kernel")
