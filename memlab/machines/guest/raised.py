"""What a question may raise in the guest, to be raised again on the host, by name."""

from memlab.errors import BadLevels, CannotRun, NotBuilt, Refused, WorkerLost

KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (BadLevels, CannotRun, NotBuilt, Refused, WorkerLost)
}
