"""What the six published rows say: of mmap, against the whole host's memory, and of writing."""

from collections.abc import Iterator

from memlab.experiment import Count

FAILS = "mmap fails"
KILLED = "mmap succeeds, OOM killer while writing"
ONE_KILLED = "mmap succeeds, OOM killer takes one process while writing"
NORMAL = "mmap succeeds, writing goes on normally"
# (case, scenario, mapping, the printed outcome)
ROWS = (
    (1, "a", "private", FAILS),
    (2, "a", "private_noreserve", KILLED),
    (3, "a", "shared", NORMAL),
    (4, "b", "private", ONE_KILLED),
    (5, "b", "private_noreserve", ONE_KILLED),
    (6, "b", "shared", NORMAL),
)
NAMED = {
    "private": "MAP_PRIVATE",
    "private_noreserve": "MAP_PRIVATE with MAP_NORESERVE",
    "shared": "MAP_SHARED",
}
SIZES = {"a": "30 of 16 parts in one process", "b": "15 of 16 parts in each of two processes"}


def claims_of(case: int, scenario: str, mapping: str, outcome: str) -> Iterator[Count]:
    """mmap's part is judged on the host, where the study's 16 G were, with the kernel's default
    estimate; the writing in the cgroup."""
    process_count = 2 if scenario == "b" else 1
    told = f"{NAMED[mapping]}, {SIZES[scenario]}"
    printed = f"case {case}: scenario {scenario.upper()}, {NAMED[mapping]}: {outcome}"
    at = {"scenario": scenario, "mapping": mapping}
    refused = process_count if outcome == FAILS else 0
    yield Count(
        text=f"{told}: mmap {'fails' if refused else 'succeeds'}",
        metric="mmap_refused",
        where=at | {"scope": "host", "overcommit": "0"},
        equals=refused,
        published=printed,
        controls=("whole_host", "always") if refused else (),
    )
    if refused:
        return
    normal = outcome == NORMAL
    yield Count(
        text=f"{told}: the OOM killer takes {'none' if normal else 'one process'}",
        metric="killed",
        where=at | {"scope": "group"},
        equals=0 if normal else 1,
        published=printed,
        controls=("swap",) if outcome == KILLED else (),
    )
    if normal or scenario == "b":
        rest = process_count if normal else 1
        yield Count(
            text=f"{told}: {'all is written' if normal else 'the other process writes all'}",
            metric="completed",
            where=at | {"scope": "group"},
            equals=rest,
            published=printed,
        )


CLAIMS = [claim for row in ROWS for claim in claims_of(*row)]
