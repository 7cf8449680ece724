"""What a test may assert of a run, and what becomes of it, in a user's own pytest session."""

import pytest
from made_up import Machine

WRITES = "'mmap-write', size=[1, 4096], filesystem='tmpfs', controls=False"
CLAIM = "'at 1 byte per call a mapping'"
# What the samples of write at one size alone cannot decide.
UNDECIDED = f"""def test_it(memlab):
    run = memlab.sweep('mmap-write', size=4096, filesystem='tmpfs', controls=False)
    run.assert_claim({CLAIM})
"""


def asserting(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def test_it(memlab):\n    run = memlab.sweep({WRITES})\n{body}"


def session(project: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    project.makepyfile(test)
    return project.runpytest_inprocess(*arguments)


def test_a_claim_that_holds_passes(project: pytest.Pytester, machine: Machine) -> None:
    result = session(project, asserting(f"run.assert_claim({CLAIM})"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*memlab*", "*::test_it: mmap-write, run 00000001, 36 samples; claims: 1 reproduced"]
    )


def test_a_contradicted_claim_fails_with_its_evidence(
    project: pytest.Pytester, machine: Machine
) -> None:
    machine.factor = 0.01
    result = session(project, asserting(f"run.assert_claim({CLAIM})"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f">*run.assert_claim({CLAIM})",
            "E*mmap-write, run 00000001: at 1 byte per call a mapping is over 10 times faster*",
            "E*contradicted (*filesystem=tmpfs*): write?2? / mmap at 1 B: *, claimed above 10, 9 *",
        ]
    )
    assert "judging" not in result.stdout.str()  # no frame of memlab's own


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ("warn", {"passed": 1, "warnings": 1}),
        ("skip", {"skipped": 1}),
        ("fail", {"failed": 1}),
    ],
)
@pytest.mark.parametrize(
    "line", [f"run.assert_claim({CLAIM})", "run.assert_not_slower_than({'method': 'mmap'})"]
)
def test_what_others_disturbed_throughout_is_inconclusive(
    project: pytest.Pytester, machine: Machine, line: str, policy: str, outcome: dict[str, int]
) -> None:
    """An unchanged test failed (1.55, 1.32 to 2.01) under "flagged as disturbed: 12 of 12"."""
    machine.factor = 0.01 if "claim" in line else 1
    machine.host = {"other_cpus_ticks": 100, "other_cpus_busy_ticks": 90}
    result = session(project, asserting(line), f"--memlab-inconclusive={policy}")
    result.assert_outcomes(**outcome)
    said = "*others disturbed all 36 samples of run 00000001 (other CPUs busy): *"
    if policy != "skip":
        result.stdout.fnmatch_lines([said])


INI_FAIL = ["-o", "memlab_inconclusive=fail"]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ([], {"passed": 1, "warnings": 1}),
        (["--memlab-inconclusive=fail"], {"failed": 1}),
        (["--memlab-inconclusive=skip"], {"skipped": 1}),
        (INI_FAIL, {"failed": 1}),
        ([*INI_FAIL, "--memlab-inconclusive=warn"], {"passed": 1, "warnings": 1}),
    ],
)
def test_what_is_not_decided_is_said_and_judged_as_asked(
    project: pytest.Pytester, machine: Machine, arguments: list[str], outcome: dict[str, int]
) -> None:
    result = session(project, UNDECIDED, "-rs", *arguments)
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(
        ["*inconclusive: needs size=1 B *: not in this run; to get it: memlab sweep *"]
    )
    if "warnings" in outcome:  # at the line of the test
        result.stdout.re_match_lines(
            [r".*test_what\w*\.py:3: MemlabInconclusive: mmap-write, run .*"]
        )


@pytest.mark.parametrize("name", ["one-byte", "mmap-write/one-byte", "at 1 byte per call"])
def test_a_claim_is_known_by_its_id_and_by_its_sentence(
    project: pytest.Pytester, machine: Machine, name: str
) -> None:
    session(project, asserting(f"run.assert_claim({name!r})")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a copy", "no claim begins with 'a copy'; there are: *(a mapping reaches its full *"),
        ("", "4 claims begin with ''; there are: *(a mapping reaches its full *"),
    ],
)
def test_a_claim_has_to_be_one(
    project: pytest.Pytester, machine: Machine, text: str, says: str
) -> None:
    result = session(project, asserting(f"run.assert_claim({text!r})"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*mmap-write: {says}"])


@pytest.mark.parametrize(
    ("assertion", "factor", "outcome"),
    [
        ("not_slower_than", 1.0, {"passed": 1}),
        ("not_slower_than", 1.2, {"failed": 1}),
        ("not_slower_than", 0.8, {"passed": 1}),
        ("same_as", 1.0, {"passed": 1}),
        ("same_as", 0.8, {"failed": 1}),
    ],
)
def test_a_run_beside_an_older_one(
    project: pytest.Pytester,
    machine: Machine,
    assertion: str,
    factor: float,
    outcome: dict[str, int],
) -> None:
    machine.sweep("mmap-write", size=[1, 4096], filesystem="tmpfs", controls=False)
    machine.factor = factor
    result = session(project, asserting(f"run.assert_{assertion}('00000001')"))
    result.assert_outcomes(**outcome)
    if factor == 1.2:
        result.stdout.fnmatch_lines(
            [
                "E*mmap-write, run 00000002 against run 00000001, *",
                "E*size=1 B method=write filesystem=tmpfs *: slower: * ratio 1.2 (1.* to 1.*)",
                "E*size=4 KiB method=write filesystem=tmpfs *: slower: *",
                "*; against run 00000001: 4 points: 2 slower, 2 same within 5 %; one session each",
            ]
        )
        assert "method=mmap" not in result.stdout.str()


def test_a_threshold_may_be_wider(project: pytest.Pytester, machine: Machine) -> None:
    base = machine.sweep("mmap-write", size=[1, 4096], filesystem="tmpfs", controls=False)
    machine.factor = 1.2
    result = session(project, asserting(f"run.assert_not_slower_than({base.id!r}, by='30%')"))
    result.assert_outcomes(passed=1)


def test_too_few_samples_are_inconclusive(project: pytest.Pytester, machine: Machine) -> None:
    machine.blocks = 3
    result = session(
        project, asserting("run.assert_not_slower_than(run)"), "--memlab-inconclusive=fail"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*size=1 B method=mmap*: inconclusive: about 2 more blocks: *"])


def test_unlike_machines_are_not_compared_and_what_differs_is_said(
    project: pytest.Pytester, machine: Machine
) -> None:
    machine.sweep("mmap-write", size=[1, 4096], filesystem="tmpfs", controls=False)
    machine.environment = {"kernel_release": "6.18.0"}
    machine.factor = 2.0
    result = session(project, asserting("run.assert_not_slower_than('00000001')"))
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*not compared: the machines or settings differ: kernel_release: 6.1.0 and 6.18.0",
            "*; not compared: the machines or settings differ: kernel_release: 6.1.0 and 6.18.0",
        ]
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("'nosuch.jsonl'", "cannot read nosuch.jsonl: No such file or directory"),
        ("'old.csv'", "old.csv: csv is written and not read; write memlab export RUN --format *"),
        ("'0badc0de'", "no run '0badc0de' in *"),
        ("run, by='5'", "by: '5' is not a percentage: write one such as 2% or 0.5%"),
        ("run, metric='tine'", "mmap-write has no metric 'tine'; *"),
    ],
)
def test_a_wrong_comparison_is_one_line(
    project: pytest.Pytester, machine: Machine, call: str, says: str
) -> None:
    result = session(project, asserting(f"run.assert_not_slower_than({call})"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">*run.assert_not_slower_than({call})", f"E*Failed: {says}"])
    assert "During handling" not in result.stdout.str()


PAIR = "'mmap-write', size=1, filesystem='tmpfs', controls=False"


@pytest.mark.parametrize(
    ("baseline", "outcome", "says"),
    [
        ("{'method': 'mmap'}", "failed", "E*method=write*: slower: *"),
        ("{'method': 'write'}", "passed", "*against method=write: 1 point: 1 faster*"),
        ("{'method': 'wirte'}", "failed", "*invalid value 'wirte'; did you mean write?*"),
    ],
)
def test_levels_of_one_run_are_held_against_each_other(
    project: pytest.Pytester, machine: Machine, baseline: str, outcome: str, says: str
) -> None:
    """Base and head as two levels of a factor: no baseline has to be kept."""
    test = asserting(f"run.assert_not_slower_than({baseline})").replace(WRITES, PAIR)
    result = session(project, test)
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines([says])
