"""Many verdicts together, and two runs stopped by looks: how often they are wrong.

`python -m tests.analysis.together` prints the tables of tests/analysis/README.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memlab.analysis.compare import benjamini_hochberg, compare
from memlab.analysis.verdicts import ALPHA, ratio_verdict
from tests.analysis.tables import NOISES, Generator, drift

STUDY = 40  # verdicts: of a study, or a claim's under so many kernels or on so many hosts
AWAY = 1.5  # of the claims that are true: how far their ratio is from the bound, as a factor


def study(rng: Generator, noise: str, true: int, sequential: bool) -> tuple[int, int, int]:
    """Of STUDY claims `true` are so, and the others at their very edge, where each word is wrong:
    (verdicts that stand, false ones of these, false words before the correction). All have the
    machine's drift in common, and 20 blocks."""
    shared = drift(rng, (20,))
    found = []
    for number in range(STUDY):
        a, b = (np.exp(NOISES[noise](rng, (20,)) + shared) for _ in range(2))
        ratio = 2 * (1 + AWAY) if number < true else 2
        verdict = ratio_verdict(a * ratio, b, above=2, sequential=sequential)
        found.append((number < true, verdict.word, verdict.p))
    adjusted = benjamini_hochberg([1.0 if p is None else p for _, _, p in found])
    wrong = [
        word == "contradicted" if is_true else word != "inconclusive" for is_true, word, _ in found
    ]
    stands = [q <= ALPHA and p is not None for (_, _, p), q in zip(found, adjusted, strict=True)]
    both = sum(w and s for w, s in zip(wrong, stands, strict=True))
    return sum(stands), both, sum(wrong)


def study_rates(noise: str, true: int, sequential: bool, sets: int) -> tuple[float, float, float]:
    """The mean share of false ones among verdicts that stand, the mean number of these, and the
    share of studies with a false word where nothing is corrected."""
    rng = np.random.default_rng(7000 + true + sequential)
    drawn = [study(rng, noise, true, sequential) for _ in range(sets)]
    share = [false / stand if stand else 0.0 for stand, false, _ in drawn]
    standing = float(np.mean([stand for stand, _, _ in drawn]))
    return float(np.mean(share)), standing, float(np.mean([wrong > 0 for _, _, wrong in drawn]))


def two_runs(
    noise: str, effect: float, sets: int, sequential: bool, most: int = 40
) -> dict[str, float]:
    """The share of pairs of runs, new / base = 1 + effect, threshold 5 %, by word, where both grow
    block by block from 6 and stop at the first word: no stop is worse. A tenth of the noise."""
    rng, words = np.random.default_rng(8000 + round(1000 * effect)), []
    for _ in range(sets):
        base, new = (np.exp(NOISES[noise](rng, (most,)) / 10) for _ in range(2))
        word = "inconclusive"
        for n in range(6, most + 1, 2):
            pair = (base[:n], new[:n] * (1 + effect))
            (found,) = compare([pair], sequential=(sequential, sequential))
            word = found.word
            if word != "inconclusive":
                break
        words.append(word)
    return {word: words.count(word) / sets for word in ("faster", "slower", "same")}


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main(print_: Callable[[str], None] = print) -> None:
    heads = ["40 verdicts, noise", "true", "stand", "false of these", "a false word at all"]
    print_(_row(heads))
    print_(_row(["---", *["---:"] * 4]))
    for noise in ("lognormal", "t, 2 df on logs", "bimodal 50/50"):
        for true in (0, 20, 36):
            for sequential in (False, True):
                false, stand, bare = study_rates(noise, true, sequential, 500)
                end = "for looks" if sequential else "20 blocks"
                shares = f"{stand:.1f}", _percent(false), _percent(bare)
                print_(_row([f"{noise}, {end}", str(true), *shares]))
    print_("")
    heads = ["two runs, both stopped at the first word", "tests for fixed sizes", "for looks"]
    print_(_row(heads))
    print_(_row(["---", "---:", "---:"]))
    for noise in ("lognormal", "t, 2 df on logs", "bimodal 70/30"):
        for effect in (0.05, 0.2):
            rates = [two_runs(noise, effect, 400, sequential) for sequential in (False, True)]
            for word in ("slower", "same"):
                if effect == 0.05 or word == "slower":
                    cells = [_percent(rate[word]) for rate in rates]
                    print_(_row([f"{word}, {effect:.0%} slower, {noise}", *cells]))


if __name__ == "__main__":
    main()
