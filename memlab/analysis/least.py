"""How few samples an interval takes: known without numpy, which a guest does not have."""


def least_samples(level: float) -> int:
    """Smallest n whose range (minimum, maximum) covers the median with probability `level`.

    The range misses the median when all n samples fall on one side: 2 * 2**-n.
    6 samples at 95 %, 5 at 90 %.
    """
    check_level(level)
    n = 1
    while 1 - 2.0 ** (1 - n) < level:
        n += 1
    return n


def least_pairs(comparisons: int, level: float = 0.95) -> int:
    """Smallest n for which signs of n pairs decide one of so many comparisons, should it be the
    only one that differs: 2 * 2**-n for each. An interval of one takes as many."""
    check_level(level)
    n = least_samples(level)
    while 2.0 ** (1 - n) * max(1, comparisons) > 1 - level:
        n += 1
    return n


def check_level(level: float) -> None:
    if not 0.5 <= level < 1:
        raise ValueError(f"confidence level lies in [0.5, 1): {level:g}")
