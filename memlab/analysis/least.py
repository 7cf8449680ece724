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


def check_level(level: float) -> None:
    if not 0.5 <= level < 1:
        raise ValueError(f"confidence level lies in [0.5, 1): {level:g}")
