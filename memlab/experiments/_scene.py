"""What the probes say that play a scene: calls, what the last one returned, lines of smaps."""

import errno

from memlab.experiment import At, Raw


def smaps(raw: Raw, side: str) -> str:
    return raw[side]["smaps"].rstrip() or "(no mapping with access)"


def evidence(raw: Raw, _: At) -> str:
    """The calls, what the last one returned, and the range's lines of smaps around it."""
    number = raw["call_errno"]
    *lead, checked = raw["steps"].splitlines()
    ended = f"-1 {errno.errorcode.get(number, number)}" if number else "0"
    return "\n".join([*lead, smaps(raw, "before"), f"{checked} = {ended}", smaps(raw, "after")])
