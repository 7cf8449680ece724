"""What can be said of a sweep in a guest before it boots.

The plan, what it needs and what holds the guest are known. How much of the guest's memory is free
is not: its kernel and memlab take some, so that a plan that fits here may still be shrunk or
refused when it has booted. One that does not fit all of the guest's memory is so already here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memlab import experiments
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.inside import FILES
from memlab.request import Request
from memlab.run import admission
from memlab.run.admission import Directories, Resources
from memlab.run.limits import HEADROOM
from memlab.run.prepare import Prepared
from memlab.text import units


def prepare(request: Request, guest: GuestTarget) -> Prepared:
    """What the guest will prepare, with nothing in its memory yet.

    Raises UnknownExperiment, BadLevels, Refused.
    """
    experiment = experiments.load(request.experiment, request.subject)
    directories = Directories(FILES)
    built, scaled = admission.admit(
        experiment,
        request.preset,
        request.levels,
        directories,
        controls=request.controls,
        short=lambda wanted: _shortage(wanted, guest),
    )
    kept = replace(request, scaled=scaled, directory=str(FILES), guest=guest.as_data())
    return Prepared(experiment, built, directories, kept)


def _shortage(wanted: Resources, guest: GuestTarget) -> str | None:
    rooms = (
        (
            "memory",
            wanted.memory_bytes + admission.GUESTS_OWN_BYTES,
            guest.spec.memory_bytes,
            "with all of it free",
        ),
        ("disk", wanted.disk_bytes.get(FILES, 0), guest.disk_bytes, "by what --dir has free"),
    )
    for what, need, room, why in rooms:
        if need * HEADROOM > room:
            least, most = (units.format_quantity(size, "B") for size in (need * HEADROOM, room))
            return f"the plan needs {least} of free {what}, and the guest has {most} {why}"
    return None


def known(guest: GuestTarget) -> dict[str, Any]:
    """The guest itself, before it boots."""
    return {
        "kernel": str(guest.image.path),
        "kernel_release": guest.image.release,
        "accelerator": guest.accelerator,
        "memory_bytes": guest.spec.memory_bytes,
        "cpus": guest.spec.cpus,
        "append": guest.spec.append,
        "iommu": guest.spec.iommu,
        "disk_bytes": guest.disk_bytes,
        "directory": str(guest.place),
    }
