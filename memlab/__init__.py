"""memlab: a laboratory for how Linux memory behaves.

    import memlab
    run = memlab.sweep("mmap-write", size=[1, 100, 4096])
    run.frame        # tidy, one row a sample
    run.summary()    # one row a point, medians with intervals
    run.plot()

Importing memlab imports nothing heavy; the first use of a name does.
"""

from memlab._version import __version__

TYPE_CHECKING = False  # typing would be half the cost of importing memlab in the worker
if TYPE_CHECKING:
    from memlab.api import Guest, Run, load, sweep

__all__ = ["Guest", "Run", "__version__", "load", "sweep"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from memlab import api

        return getattr(api, name)
    raise AttributeError(f"module 'memlab' has no attribute {name!r}")
