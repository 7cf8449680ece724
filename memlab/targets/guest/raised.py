"""What a question may raise in the guest, to be raised again on the host, by name."""

from memlab.run.admission import Refused
from memlab.run.plan import BadLevels
from memlab.run.request import CannotRun
from memlab.run.warm import NotBuilt, WorkerLost

KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (BadLevels, CannotRun, NotBuilt, Refused, WorkerLost)
}
