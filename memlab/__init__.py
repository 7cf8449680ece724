"""memlab: a laboratory for how Linux memory behaves.

    import memlab
    memlab.list_experiments()
    run = memlab.sweep("mmap-write", size=[1, 100, 4096])
    run.frame        # tidy, one row a sample
    run.summary()    # one row a point, medians with intervals
    run.claims()     # what holds here of what was published
    run.plot()

Every error is a MemlabError. Importing memlab imports nothing heavy; the first use of a name does.
"""

from memlab._version import __version__

TYPE_CHECKING = False  # typing would be half the cost of importing memlab in the worker
if TYPE_CHECKING:
    from memlab.api import (
        Run,
        describe,
        doctor,
        list_experiments,
        list_runs,
        load,
        sweep,
    )
    from memlab.command.api import trial
    from memlab.diagnose.api import diagnose_process
    from memlab.errors import CannotRun, HostError, Interrupted, MemlabError, UsageError
    from memlab.machines.guest.handle import Guest

_HOMES = {
    "memlab.api": (
        *("Run", "describe", "doctor", "list_experiments", "list_runs"),
        *("load", "sweep"),
    ),
    "memlab.command.api": ("trial",),
    "memlab.diagnose.api": ("diagnose_process",),
    "memlab.errors": ("CannotRun", "HostError", "Interrupted", "MemlabError", "UsageError"),
    "memlab.machines.guest.handle": ("Guest",),
}

__all__ = [
    "CannotRun",
    "Guest",
    "HostError",
    "Interrupted",
    "MemlabError",
    "Run",
    "UsageError",
    "__version__",
    "describe",
    "diagnose_process",
    "doctor",
    "list_experiments",
    "list_runs",
    "load",
    "sweep",
    "trial",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'memlab' has no attribute {name!r}")
