"""A diagnosis as text: the answer on one screen, the rest behind `-v`.

Plain text, without rich: importing that takes as much CPU time as the whole look.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence

from memlab.diagnose import family, growth, held, limits, machine_account, started
from memlab.diagnose.account import Account, Line
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.family import Member
from memlab.diagnose.finding import Fact, Finding, Severity, per_day
from memlab.diagnose.look import Look
from memlab.diagnose.started import LOAD
from memlab.diagnose.subject import Subject
from memlab.diagnose.unlooked import Unlooked
from memlab.diagnose.used import Used
from memlab.text import units
from memlab.text.printable import printable
from memlab.text.wrapping import wrapped

_WIDTH = 100  # characters: longer lines are hard to read
_LEAST = 60
_PAGE_BYTES = 4096  # the smallest of any machine
_CHILDREN_SHARE = 0.05  # of a CPU: less is not worth to know
_LEAST_NOTE = 24  # columns
_THREADS_SHOWN = 5
_MOST_NAMES = 4  # of what was not looked at, before -v
_MEMBERS_SHOWN = 5
_LINES_SHOWN = 9
_CALLS = {
    "madvise": "madvise",
    "munmap": "munmap",
    "mprotect": "mprotect",
    "mremap": "mremap",
    "brk": "brk",
    "shootdowns_asked": "flushes asked",
    "minor_faults": "faults",
    "threads_created": "threads made",
    "lock_sleeps": "sleeps for a lock",
    "compactions": "compactions",
}
_quantity, _percent = units.format_quantity, units.format_percent
LEFT_OUT = "the evidence, the accounts of page faults, limits and time, and the look's cost"
NOTHING = "nothing to worry about was found"


def lines(diagnosis: Diagnosis, *, verbose: bool = False) -> Iterator[str]:
    """The subject, the findings, who holds the memory, and what was not looked at; with `verbose`
    the evidence, the other accounts, the threads and what the look cost."""
    yield from _wrapped("", [_subject(diagnosis)])
    yield from _verdict(diagnosis, verbose=verbose)
    yield ""
    said: set[str] = set()  # each line to paste is there once
    for number, one in enumerate(diagnosis.findings, 1):
        yield from _finding(diagnosis, number, one, said, verbose=verbose)
    if diagnosis.findings and (rest := [*_left_out(diagnosis, verbose=verbose)]):
        yield from (*rest, "")
    for account in diagnosis.accounts:
        if account.name == "stock" or verbose:
            yield from _account(account, verbose=verbose)
    yield from _used(diagnosis.used)
    yield from _members(diagnosis)
    if verbose and diagnosis.look:
        yield from _threads(diagnosis.look)
        yield from _malloc(diagnosis.look)
    yield from _proofs(diagnosis)
    if verbose:
        yield from _wrapped("", [_cost(diagnosis)])


def _subject(diagnosis: Diagnosis) -> str:
    if diagnosis.group or diagnosis.machine:
        header = held.header(diagnosis.group) if diagnosis.group else None
        header = header or (machine_account.header(diagnosis.machine) if diagnosis.machine else "")
        return f"{header}; looked at for {_quantity(diagnosis.seconds, 's')}"
    look = diagnosis.look
    assert look
    subject = look.subject
    return (
        f"process {subject.pid} ({subject.command}) of {subject.user}, "
        f"{_lost(subject)}{units.counted(look.thread_count, 'thread')}, "
        f"{_percent(look.cpu_share)} of a CPU{_of_children(look)}, "
        f"{_size(look.memory.resident_bytes)} resident; looked at for "
        f"{_quantity(look.seconds, 's')}"
    )


def _lost(subject: Subject) -> str:
    thread = subject.thread
    return f"whose main thread has ended (read by thread {thread}), " if thread else ""


def _of_children(look: Look) -> str:
    share = look.waited_cpu_share
    waited = f" ({_percent(share)} more by children that it waited for)"
    return waited if share >= max(_CHILDREN_SHARE, look.cpu_share) else ""


def _verdict(found: Diagnosis, *, verbose: bool) -> Iterator[str]:
    """That nothing was found is a claim: it is made if all was looked at, and nothing nears a limit
    or grows on. What was not looked at stands after the findings."""
    worth = [one for one in found.findings if one.severity > Severity.NOTE]
    is_open = any(one.grows or one.name in limits.NEARS for one in found.findings)
    if not worth and found.whole and not is_open:
        yield NOTHING
        yield from _resolved(found)
    elif not worth and not found.findings:
        yield "no finding, but not all was looked at:"
        yield from _left_out(found, verbose=verbose)
        yield from _resolved(found)
    if not worth and found.findings:
        yield "worth knowing:"


_GROWN_BYTES = 1 << 20


def _resolved(diagnosis: Diagnosis) -> Iterator[str]:
    """Which growth the look was too short to show: a slow one, or one in steps."""
    look, names = diagnosis.look, {one.name for one in diagnosis.findings}
    if look is None or "growing" in names:
        return
    grown = look.growth_bytes_per_s * look.seconds
    if grown >= _GROWN_BYTES and "swings" not in names:
        yield f"(it grew by {_size(grown)}, not in each part of the look: a longer one tells more)"
    else:
        least = per_day(growth.LEAST_GROWTH_BYTES / diagnosis.seconds)
        yield f"(a growth of under {least} would not show in {_quantity(diagnosis.seconds, 's')})"


def _left_out(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[str]:
    if diagnosis.not_looked_at:
        parts = [_unlooked(one, verbose=verbose) for one in diagnosis.not_looked_at]
        yield from _wrapped("not looked at: ", ["; ".join(parts)])
    for one in diagnosis.accounts:
        if not one.small_rest:
            rest = _quantity(abs(one.rest), one.unit)
            more = "unexplained" if one.rest > 0 else "counted twice"
            yield from _wrapped("", [f"of {one.title}: {rest} {more}"])


def _unlooked(one: Unlooked, *, verbose: bool) -> str:
    names = one.name.split(", ")
    more = 0 if verbose or len(names) <= _MOST_NAMES else len(names) - _MOST_NAMES
    what = f"{', '.join(names[:_MOST_NAMES])} and {more} more" if more else one.name
    price = "" if one.seconds is None else f" (some {1000 * one.seconds:,.0f} ms)"
    option = f"; {one.option} does" if one.option else ""
    return f"{what}: {one.reason}{price}{option}"


def _finding(
    diagnosis: Diagnosis, number: int, one: Finding, said: set[str], *, verbose: bool
) -> Iterator[str]:
    yield from _wrapped(f"{number}. {one.severity.name.lower()}: ", [one.title])
    if verbose and one.evidence:
        yield from _wrapped("   evidence: ", ["; ".join(map(_fact, one.evidence))])
    if one.setting:
        yield from _wrapped("   try: ", [one.setting])
    proof = diagnosis.proof(one)
    if proof and proof not in said:  # one line, for the clipboard
        yield f"   proof: {proof}"
        said.add(proof)
    if verbose and one.experiments:
        sweeps = ", ".join(f"memlab sweep {name}" for name in one.experiments)
        yield from _wrapped("   what it costs here: ", [sweeps])
    if verbose:
        yield f"   rests on: {one.account}, {one.line}"
    yield ""


def _account(account: Account, *, verbose: bool) -> Iterator[str]:
    """The lines that matter, what they leave, and the sum."""
    main = [line for line in account.lines if line.part_of is None]
    if not main:
        return
    yield account.title
    largest = sorted(main, key=lambda line: -abs(line.value))[:_LINES_SHOWN]
    shown = [one for one in main if verbose or account.total is None or one in largest]
    parts = [
        line
        for line in account.lines
        if line.part_of is not None and (verbose or not _is_under_page(account, line))
    ]
    wholes = dict.fromkeys(line.part_of or "" for line in parts)
    rows = []
    for line in shown:
        rows.append(_row(account, line))
        rows += _part_rows(account, parts, [one for one in wholes if _last_of(one, shown) is line])
    if account.total is not None:
        others = sum(line.value for line in main if line not in shown)
        if others:
            rows.append(("other lines", _quantity(others, account.unit), ""))
    hidden = [line.name for line in main if line not in shown]
    rows += _part_rows(account, parts, [one for one in wholes if one in hidden])
    if account.total is not None:
        note = "counters that are ahead of the sum" if account.rest < 0 else ""
        rows.append(("rest", _quantity(account.rest, account.unit), note))
        rows.append(("in all", _quantity(account.total, account.unit), ""))
    rows += _part_rows(account, parts, [*_PART])
    rows += _part_rows(account, parts, list(wholes))
    width = max(len(name) for name, _, _ in rows)
    of_value = max(len(value) for _, value, _ in rows)
    for name, value, note in rows:
        lead = f"  {name.ljust(width)}  {value.rjust(of_value)}  "
        yield from _noted(lead, note)
    yield ""


def _is_under_page(account: Account, line: Line) -> bool:
    """Of memory: true, and of no use to anyone."""
    is_memory = account.name == "stock" and (line.unit or account.unit) == "B"
    return is_memory and max(line.value, line.high or 0.0) < _PAGE_BYTES


def _last_of(whole: str, lines: Sequence[Line]) -> Line | None:
    """The last line of a whole, which may be several: `anonymous, private` is of `anonymous`."""
    begins = f"{whole} ", f"{whole}, "
    those = [line for line in lines if line.name == whole or line.name.startswith(begins)]
    return those[-1] if those else None


def _part_rows(
    account: Account, parts: list[Line], wholes: Sequence[str], indent: str = "  "
) -> list[tuple[str, str, str]]:
    """The rows of the parts of these, which are taken out of `parts`, each with its own below it;
    `all` is the sum, and `none` what is beside it."""
    rows = []
    for whole in wholes:
        lead = f"{indent}{_PART.get(whole, f'of {whole}')}: "
        those = [line for line in parts if line.part_of == whole]
        parts[:] = [line for line in parts if line.part_of != whole]
        for line in those:
            rows.append((f"{lead}{line.name}", *_row(account, line)[1:]))
            rows += _part_rows(account, parts, [line.name], f"{indent}  ")
    return rows


def _noted(lead: str, note: str) -> Iterator[str]:
    """A row, its note on as many lines as it takes, under its own beginning if there is room."""
    columns = _columns()
    if not note:
        yield lead.rstrip()[:columns]
        return
    rest = " " * min(len(lead), columns - _LEAST_NOTE)
    yield from wrapped(printable(note), columns, lead, rest)


def _used(used: Used | None) -> Iterator[str]:
    """What it used in all, in shorter windows, and by mapping."""
    if used is None:
        return
    least = "at least " if used.at_least else ""
    notes = []
    if used.at_least:
        notes.append("the kernel reclaimed on this machine meanwhile, which clears the bits too")
    if used.huge_bytes:
        notes.append(f"{_size(used.huge_bytes)} are in huge pages, which count whole")
    yield (
        f"used in the last {_quantity(used.seconds, 's')}: {least}{_size(used.used_bytes)} of "
        f"{_size(used.resident_bytes)}"
    )
    if notes:
        yield from _wrapped("  ", ["; ".join(notes)])
    spans = [f"{_quantity(w.seconds, 's')} {_size(w.used_bytes)}" for w in used.windows]
    yield from _wrapped("  used within ", [", ".join(spans)])
    rows = [(_size(m.used_bytes), _size(m.resident_bytes), m.name) for m in used.mappings]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else [0, 0]
    for of_use, resident, name in rows:
        yield f"  {of_use.rjust(wide[0])} of {resident.rjust(wide[1])}  {name}"[:_WIDTH]
    yield ""


_PART = {"all": "of it", "none": "beside it"}


def _row(account: Account, line: Line) -> tuple[str, str, str]:
    unit = line.unit or account.unit
    note = line.note
    if line.low is not None and line.high is not None:
        span = f"{_quantity(line.low, unit)} to {_quantity(line.high, unit)}"
        note = f"{span}; {note}" if note else span
    value = _amount(line.value, unit)
    if line.limit is not None:
        value = f"{value} of {_amount(line.limit, unit)}"
        note = f"{100 * line.value / max(line.limit, 1):.0f} %; {note}"
    return line.name, value, note


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f}" if unit == "count" else _quantity(value, unit)


def _members(diagnosis: Diagnosis) -> Iterator[str]:
    """Of a group or machine its processes; of a process its children, if a finding is of them."""
    if diagnosis.machine:
        yield from machine_account.members(diagnosis.machine)
        return
    if diagnosis.group:
        whose, members, count = "processes", diagnosis.group.members, diagnosis.group.processes
    else:
        whose, members = "children", _children(diagnosis)
        count = len(diagnosis.look.descendants) if diagnosis.look else 0
    if not members:
        return
    yield f"its {whose}: anonymous memory, of it shared, growth in the look"
    for member in members[:_MEMBERS_SHOWN]:
        shared = _size(member.shared_bytes)
        yield (
            f"  {member.pid:>8}  {member.command:<16}  {_size(member.anonymous_bytes):>9}  "
            f"{shared:>9}  {_size(member.growth_bytes):>9}"
        )
    # Those that have ended, or may not be read, are no members.
    count = count if len(members) >= family.MEMBERS_MAX else len(members)
    if more := max(0, count - _MEMBERS_SHOWN):
        yield f"  and {units.counted(more, 'process')} that hold{'s' if more == 1 else ''} no more"
    yield ""


def _children(diagnosis: Diagnosis) -> tuple[Member, ...]:
    if not diagnosis.look or not any(one.line == "its children" for one in diagnosis.findings):
        return ()
    return tuple(m for m in diagnosis.look.members if m.pid in diagnosis.look.descendants)


_FOR = re.compile(rf" --for {started.FOR_S}s | {LOAD}$")  # a time, or the end of a load, ends it


def _proofs(diagnosis: Diagnosis) -> Iterator[str]:
    """What the lines that start the program again leave out, or why there are none."""
    if diagnosis.look is None:
        return
    start = diagnosis.look.started
    asked = [one for one in diagnosis.findings if one.policies]
    if asked and start.unknown:
        yield from _wrapped("", [f"no `memlab try` line: {start.unknown}"])
        if recorded := started.recorded(
            diagnosis.look.subject, [one.policies or {} for one in asked]
        ):
            yield f"record it as it runs: {recorded}"
    proofs = [proof for one in asked if (proof := diagnosis.proof(one))]
    if proofs:
        yield from _wrapped("`memlab try` starts it ", start.remarks)
    if any(f" --for {started.FOR_S}s " in proof for proof in proofs):
        yield "--for ends each run after that time: name one that reaches the program's peak"
    if untimed := [
        one.policies
        for one in asked
        if one.policies and (proof := diagnosis.proof(one)) and not _FOR.search(proof)
    ]:
        budget_s = max(map(started.budget_s, untimed))
        words = f"--for {started.FOR_S}s --budget {budget_s}s"
        yield f"if it does not end by itself, put {words} before the --"
    if any(proof.endswith(LOAD) for proof in proofs):
        yield f"{LOAD} is your load on the service, such as a benchmark that ends"


def _threads(look: Look) -> Iterator[str]:
    names = [name for name in _CALLS if look.rate(name)]
    shown = [t for t in look.threads if any(t.per_s.get(name) for name in names)]
    if not shown:
        return
    rows = [["thread", "", *(_CALLS[name] for name in names)]]
    for thread in shown[:_THREADS_SHOWN]:
        rates = (_rate(thread.per_s.get(name)) for name in names)
        rows.append([str(thread.tid), thread.command, *rates])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells)
    if len(shown) > _THREADS_SHOWN:
        yield f"and {units.counted(len(shown) - _THREADS_SHOWN, 'thread')} that did less"
    yield ""


def _malloc(look: Look) -> Iterator[str]:
    malloc = look.allocator
    if malloc is None:
        yield "malloc: none that is known"
    else:
        yield f"malloc: {malloc.name} {malloc.version or '(version not seen)'}, {malloc.where}"
        for option in malloc.options:
            yield f"  {option.name} {option.value} ({option.source})"
    for use in look.largest:
        grown = f", grew by {_size(use.growth_bytes)}" if use.growth_bytes else ""
        yield from _wrapped("  holds ", [f"{_size(use.resident_bytes)}{grown}: {use.name}"])
    yield f"TLB shootdowns: {_shootdowns(look)}"
    yield ""


def _shootdowns(look: Look) -> str:
    seen = look.shootdowns
    how = ", not all of them" if seen.hidden else ""
    asked, taken = look.rate("shootdowns_asked"), look.rate("shootdowns_taken")
    own = (
        "what its threads send is not seen"
        if asked is None
        else f"its threads send {_rate(asked)} and receive {_rate(taken)}"
    )
    return (
        f"{own}; interrupts on its CPUs ({seen.cpus}), of all "
        f"processes{how}: {_rate(seen.interrupts_per_s)}"
    )


def _cost(diagnosis: Diagnosis) -> str:
    cost = diagnosis.cost
    tables = (
        f"; page tables were read for {_quantity(cost.page_tables_s, 's')}, in pieces of at most "
        "8 MiB, each of which makes calls that map memory wait"
        if cost.page_tables_s
        else ""
    )
    counts = (
        ""
        if diagnosis.machine
        else f"; the counts cost the process about {_percent(cost.counted_share)}"
    )
    return (
        f"this look cost {_percent(cost.share)} of a CPU: {_quantity(cost.cpu_s, 's')} in "
        f"{_quantity(diagnosis.seconds, 's')}; to start Python took "
        f"{_quantity(cost.starting_cpu_s, 's')} before it{counts}{tables}"
    )


def _wrapped(first: str, texts: Iterable[str]) -> Iterator[str]:
    """Each text after `first`, its further lines under its beginning, as wide as the terminal."""
    for line in texts:
        yield from wrapped(printable(line), _columns(), first, " " * min(len(first), 18))


def _columns() -> int:
    return min(_WIDTH, max(_LEAST, shutil.get_terminal_size((_WIDTH, 1)).columns))


def _fact(fact: Fact) -> str:
    value = fact.value if isinstance(fact.value, str) else _quantity(fact.value, fact.unit)
    return f"{fact.name} {value}"


def _size(value: float | None) -> str:
    return "not seen" if value is None else units.format_quantity(value, "B")


def _rate(value: float | None) -> str:
    return "not seen" if value is None else units.format_quantity(value, "1/s")
