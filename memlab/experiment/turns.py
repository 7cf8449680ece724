"""How the points of a block take turns: see probes/support/relay.h and memlab.run.relay."""

from memlab.text import units

MOST = 256  # points: RELAY_MOST of probes/support/relay.h
TURNS = 20  # of a point in a block: TURNS_MOST
FEWEST = 6  # that a run comes down to
TURN_S = 0.002  # TURN_NS of probes/support/relay.c, as is the next
LEAD_S = 0.0002


def said() -> str:
    """How they are taken, in words."""
    turn, lead = (units.format_duration(s) for s in (TURN_S, LEAD_S))
    return (
        f"in at most {TURNS} turns of {turn} per block, fewer where blocks differ more than turns, "
        f"each after a lead-in of {lead}; a value is the interquartile mean of its turns"
    )
