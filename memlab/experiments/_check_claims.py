"""Claims of the experiments whose points are checks of the kernel, each an exact count."""

from memlab.experiment import Count


def of(check: str, metric: str, equals: int, text: str, published: str) -> Count:
    return Count(
        text=text, metric=metric, where={"check": check}, equals=equals, published=published
    )
