"""A kernel log in the records of tools, and one that is cut: the answer has the time, and says
less at most."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import memlab

from memlab.diagnose.kernel_log import answer, records, source
from memlab.errors import CannotLook

from .test_last_kill import BARE, V1, _same, kill, printed, read

RIGHT = kill("\n".join(BARE))
EPOCH, BOOT = 1790950447, 581  # 2026-10-02 14:14:07 UTC
KILLED = len(BARE) - 1
CLOCK = f"2026-10-02T14:14:07.{KILLED:06}"
AFTER_BOOT = f"{BOOT}.{KILLED:06}"


def micro(i: int, seconds: int = EPOCH) -> str:
    return f"{seconds}{i:06}"


def each(form: Callable[[int, str], str], between: str = "\n") -> str:
    return between.join(form(i, line) for i, line in enumerate(BARE))


def rows(order: int = 1) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["Date", "Host", "Message", "Level"][::order])
    for i, line in enumerate(BARE):
        writer.writerow([f"2026-10-02T14:14:07.{i:06}Z", "host", line, "warn"][::order])
    return out.getvalue()


def wide_rows(*, has_heading: bool = True) -> str:
    """With columns that are longer than the message."""
    out = io.StringIO()
    writer = csv.writer(out)
    if has_heading:
        writer.writerow(["Time", "labels", "Line", "id"])
    for i, line in enumerate(BARE):
        labels = json.dumps({"app": "kernel", "node": "n" * 400})
        writer.writerow([f"2026-10-02T14:14:07.{i:06}Z", labels, line, "A" * 500])
    return out.getvalue()


def verbose(i: int, line: str) -> str:
    return (
        f"Fri 2026-10-02 14:14:07.{i:06} CEST [s=7d;i={i:x};b=ab;m=22;t=5f;x=9]\n"
        f"    _BOOT_ID=ab\n    SYSLOG_IDENTIFIER=kernel\n    MESSAGE={line}\n    PRIORITY=4"
    )


def journal(i: int, line: str) -> dict[str, str]:
    return {
        "__REALTIME_TIMESTAMP": micro(i),
        "_HOSTNAME": "n1",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": line,
    }


def with_boot(i: int, line: str) -> dict[str, str]:
    return {"__MONOTONIC_TIMESTAMP": micro(i, BOOT), **journal(i, line)}


def folded(i: int, line: str) -> str:
    text = textwrap.fill(line.replace("'", "''"), 76, break_on_hyphens=False)
    text = text.replace("\n", "\n    ")
    return (
        f"insertId: a{i}\njsonPayload:\n  MESSAGE: '{text}'\n  PRIORITY: '4'\n"
        f"timestamp: '2026-10-02T14:14:07.{i:06}Z'"
    )


LOKI = [[f"{micro(i)}000", line] for i, line in enumerate(BARE)]
RECORDS = {
    "verbose": (each(verbose), f"2026-10-02 14:14:07.{KILLED:06} CEST"),
    "verbose, quoted": (
        "\n".join(f"> {line}" for line in each(verbose).split("\n")),
        f"2026-10-02 14:14:07.{KILLED:06} CEST",
    ),
    "verbose, since boot": (
        each(verbose).replace("    PRIORITY", "    _SOURCE_MONOTONIC_TIMESTAMP=581000010\n    P"),
        AFTER_BOOT,
    ),
    "json": (each(lambda i, line: json.dumps(journal(i, line))), f"{CLOCK}Z"),
    "json, since boot": (each(lambda i, line: json.dumps(with_boot(i, line))), AFTER_BOOT),
    "json-pretty": (each(lambda i, line: json.dumps(journal(i, line), indent=8)), f"{CLOCK}Z"),
    "json-pretty, its begin cut": (
        each(lambda i, line: json.dumps(with_boot(i, line), indent=8)).partition(",\n")[2],
        AFTER_BOOT,
    ),
    "json-sse": (
        each(lambda i, line: f"data: {json.dumps(with_boot(i, line))}\n"),
        AFTER_BOOT,
    ),
    "export": (
        each(lambda i, line: "\n".join(map("=".join, journal(i, line).items())), "\n\n"),
        f"{CLOCK}Z",
    ),
    "short-unix": (each(lambda i, line: f"{EPOCH}.{i:06} host kernel: {line}"), f"{CLOCK}Z"),
    "dmesg --json": (
        json.dumps({"dmesg": [{"time": BOOT + i / 1e6, "msg": x} for i, x in enumerate(BARE)]}),
        AFTER_BOOT,
    ),
    "CloudWatch": (
        json.dumps({"events": [{"timestamp": EPOCH * 1000 + i, "message": x} for i, x in
                               enumerate(BARE)]}),
        f"2026-10-02T14:14:07.{KILLED:03}000Z",
    ),
    "CloudWatch, tail": (
        each(lambda i, line: f"2026-10-02T14:14:07.{i:03}Z\t{line}"),
        f"2026-10-02T14:14:07.{KILLED:03}Z",
    ),
    "Loki": (json.dumps({"data": {"result": [{"stream": {}, "values": LOKI}]}}), f"{CLOCK}Z"),
    "Loki, newest first": (
        json.dumps({"data": {"result": [{"stream": {}, "values": LOKI[::-1]}]}}, indent=1),
        f"{CLOCK}Z",
    ),
    "Elasticsearch": (
        json.dumps({"hits": {"hits": [{"_source": {"message": x, "@timestamp": f"{CLOCK}Z"}}
                                      for x in BARE]}}),
        f"{CLOCK}Z",
    ),
    "Elasticsearch, with fields": (
        json.dumps({"hits": {"hits": [{"_source": {"message": x, "@timestamp": f"{CLOCK}Z"},
                                       "fields": {"message": [x]}} for x in BARE]}}),
        f"{CLOCK}Z",
    ),
    "CloudWatch, query": (
        json.dumps({"results": [[{"field": "@timestamp", "value": "2026-10-02 14:14:07.5"},
                                 {"field": "@message", "value": x}] for x in BARE]}),
        "2026-10-02 14:14:07.5",
    ),
    "OpenTelemetry": (
        json.dumps({"resourceLogs": [{"logRecords": [
            {"timeUnixNano": f"{micro(i)}000", "body": {"stringValue": x}}
            for i, x in enumerate(BARE)]}]}),
        f"{CLOCK}Z",
    ),
    "GELF": (
        each(lambda i, line: json.dumps({"short_message": line, "timestamp": float(EPOCH)})),
        "2026-10-02T14:14:07.000000Z",
    ),
    "Google Cloud": (
        json.dumps([{"jsonPayload": {"MESSAGE": x}, "timestamp": f"{CLOCK}Z"} for x in BARE]),
        f"{CLOCK}Z",
    ),
    "gcloud": (each(folded, "\n---\n"), f"{CLOCK}Z"),
    "Ansible": (
        json.dumps({"stdout": each(lambda i, line: f"[{BOOT}.{i:06}] {line}"), "rc": 0}, indent=1),
        AFTER_BOOT,
    ),
    "events of Kubernetes": (
        each(lambda i, x: json.dumps({"message": x, "lastTimestamp": f"{CLOCK}Z"})), f"{CLOCK}Z",
    ),
    "a string": (json.dumps(each(lambda i, line: f"[  {BOOT}.{i:06}] {line}")), AFTER_BOOT),
    "CSV": (rows(), f"{CLOCK}Z"),
    "CSV, wide columns": (wide_rows(), f"{CLOCK}Z"),
    "CSV, wide columns without a heading": (wide_rows(has_heading=False), f"{CLOCK}Z"),
    "docker, its other lines without a comma": (
        '{"log":"usb 1-1: new device","stream":"stdout","time":"2026-10-02T14:14:07Z"}\n' * 999
        + each(lambda i, x: json.dumps({"log": f"{x}\n", "time": f"2026-10-02T14:14:07.{i:06}Z"})),
        f"{CLOCK}Z",
    ),
    "CSV, other columns": (rows(-1), f"{CLOCK}Z"),
    "HTML": (
        each(lambda i, line: f"<tr><td>{i}</td><td>[{BOOT}.{i:06}] {line}</td></tr>", ""),
        AFTER_BOOT,
    ),
    "containerd, in pieces": (
        each(lambda i, line: f"{CLOCK}Z stdout P {line[:40]}\n{CLOCK}Z stdout F {line[40:]}"),
        f"{CLOCK}Z",
    ),
    "cat -A of Windows' line ends": (
        each(lambda i, line: f"[{BOOT}.{i:06}] {line}^M$"),
        AFTER_BOOT,
    ),
    "a table of Markdown": (
        each(lambda i, line: f"| `[{BOOT}.{i:06}] {line}` |"), AFTER_BOOT,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "at"), RECORDS.values(), ids=RECORDS)
def test_records_of_tools_have_the_answer_and_its_time(text: str, at: str) -> None:
    assert _same(text) == _same("\n".join(BARE))
    assert kill(text).at == at


def test_a_time_in_a_record_is_not_that_of_its_line() -> None:
    """An older file goes before a newer one that precedes it in the log."""
    lines = [*BARE[:4], 'time="2019-06-13T23:04:43.1Z" level=debug msg=event', *BARE[4:]]
    text = "\n".join(json.dumps({"line": x, "timestamp": f"{CLOCK}Z"}) for x in lines)
    assert _same(text) == RIGHT


def test_csv_whose_quotes_are_not_doubled_is_not_a_log_without_a_kill() -> None:
    rows = [f'"{line} of "it"","2026-10-02T14:14:07Z"' for line in BARE[:3]]
    text = "\n".join([*rows, *(f'"{line}","2026-10-02T14:14:07Z"' for line in BARE)])
    assert kill(text).killed == RIGHT.killed


@pytest.mark.parametrize("behind", ["", "END\n", "MESSAGE\n"])
def test_lines_behind_a_record_of_the_journal_are_read(behind: str) -> None:
    record = f"__CURSOR=s=a;i=1\n__REALTIME_TIMESTAMP={micro(0)}\nMESSAGE=hello\n\n"
    text = record + behind + each(lambda i, line: f"[{BOOT}.{i:06}] {line}")
    assert _same(text) == RIGHT
    assert kill(text).at == AFTER_BOOT


PREFIXES = {
    "several hosts": "node17: [  581.376828] {}",
    "grep -n": "1203:[  581.376828] {}",
    "cat -n": "  1203\t[  581.376828] {}",
    "a list": "12. [  581.376828] {}",
    "smart quotes": "\u201c[  581.376828] {}\u201d",
    "diff": "+[  581.376828] {}",
    "who quotes": "JD> [  581.376828] {}",
    "stern": "node-debug-x7 kmsg [  581.376828] {}",
    "a build": "14:14:07  [  581.376828] {}",
    "Fluent Bit": '[0] kmsg: [[1790950447.3, {{}}], {{"t"=>"[  581.376828]", "msg"=>"{}"}}]',
    "logfmt": 'level=warn time="[  581.376828]" msg="{}"',
    "HTML twice": "&amp;gt; [&amp;nbsp; 581.376828] {}",
    "entities": "[&#32; 581&#x2E;376828] {}",
    "colours of 256": "\x1b[38;5;208m[  581.376828]\x1b[39;49m\x1b(B\x1b[m {}",
    "colours without their begin": "[32m[  581.376828] [0m{}",
    "colours as text": "\\x1b[32m[  581.376828] \\x1b[0m{}",
    "a clock too": "Oct  2 14:14:07 host kernel: [  581.376828] {}",
    "MediaTek": "<4>[  581.376828]  (2)[123:kworker/2:1]{}",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_stamp_behind_other_words_is_the_time(prefix: str) -> None:
    text = "\n".join(prefix.format(line) for line in BARE)
    assert _same(text) == _same("\n".join(BARE))
    assert kill(text).at == "581.376828"


def test_the_clock_is_said_with_the_seconds_since_boot() -> None:
    both = "Oct  2 14:14:07 host kernel: [  581.376828] "
    text = printed("\n".join(both + line for line in BARE))
    assert text.startswith("killed at Oct  2 14:14:07 (581 s after boot): process 701 (worker)")


def test_a_message_of_several_lines_is_one_record() -> None:
    stamp = "Fri 2026-10-02 14:14:07.000001 UTC [s=7d;i=1;b=ab;m=22;t=5f;x=9]\n    MESSAGE="
    text = stamp + "\n            ".join(BARE) + "\n    PRIORITY=4\n"
    assert _same(text) == _same("\n".join(BARE))
    assert kill(text).at == "2026-10-02 14:14:07.000001 UTC"


VICTIM = RIGHT.killed[0]


@pytest.mark.parametrize("stamp", ["", "Oct 02 14:14:07 host kernel: "], ids=["bare", "journal"])
@pytest.mark.parametrize("width", range(30, 240, 6))
def test_of_a_line_that_is_cut_no_piece_is_taken_for_the_whole(stamp: str, width: int) -> None:
    """A terminal cut each line: what is said of the kill is right, or not said."""
    last, _, _ = answer.last(read("\n".join(f"{stamp}{line}"[:width] for line in BARE)))
    if last is None:
        return
    assert last.group in (None, RIGHT.group)
    assert last.cause in ("unknown", RIGHT.cause)
    assert last.used_bytes in (None, RIGHT.used_bytes)
    for one in last.killed:
        assert one.pid in (None, VICTIM.pid)
        assert one.name in ("", VICTIM.name)
        assert one.score_adjustment in (None, VICTIM.score_adjustment)
    for task in last.processes:
        assert task.pid in {one.pid for one in RIGHT.processes}
        assert task.resident_bytes in {one.resident_bytes for one in RIGHT.processes}
        assert task.score_adjustment in {None, *(one.score_adjustment for one in RIGHT.processes)}


@pytest.mark.parametrize("columns", range(4, 60, 7))
def test_lines_without_their_first_columns_say_the_same(columns: int) -> None:
    stamp = "Oct  2 14:14:07 host kernel: [  581.376828] "
    front = " " * 20  # what is cut is a prefix, not the kernel's words
    text = "\n".join(f"{front}{stamp}{line}"[columns:] for line in BARE)
    assert _same(text) == _same("\n".join(BARE))


def test_a_time_is_since_boot_or_since_1970_in_any_unit() -> None:
    times = {
        records.time_of(text) for text in ("1790950447.5", "1790950447500", "1790950447500000")
    }
    assert times == {"2026-10-02T14:14:07.500000Z "}
    assert records.time_of("1790950447500000001") == "2026-10-02T14:14:07.500000001Z "
    assert records.time_of(581.376828) == "[581.376828] "
    assert [records.time_of(text) for text in ("-1", "9" * 5000, "x", "nan", "1e400")] == [""] * 5


@pytest.mark.seconds(but="9")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[\n" * 100_000,
        '{"a": [' * 50_000,
        '{"MESSAGE": ' + "9" * 5000 + ",\n" + "}" * 10,
        '"a","b\n' * 1000,
        " [s=x\n" + "    MESSAGE=x\n" * 1000 + "       y\n" * 100_000,
        "\n---\n" + "MESSAGE: '" * 10_000,
        "</" * 100_000,
        "<br" * 100_000,
        "x &amp" * 100_000,
    ],
    ids=range(10),
)
def test_records_that_no_tool_makes_are_read_as_lines(text: str) -> None:
    """Whatever stands before it, the kill behind it is read."""
    assert kill(f"{text}\n\n{BARE[-1]}\n").killed[0].pid == 701


@pytest.mark.parametrize("module", [gzip, lzma, bz2], ids=lambda module: module.__name__)
def test_a_log_that_is_packed(module: Any, tmp_path: Path) -> None:
    text = "\n".join(BARE).encode()
    log = tmp_path / "kern.log.2.gz"
    log.write_bytes(module.compress(text[:200]) + module.compress(text[200:]))
    assert answer.kill_of(source.read(log).reports[-1]) == RIGHT
    log.write_bytes(module.compress(text)[:20] + b"x" * 200)
    with pytest.raises(CannotLook, match="cannot be unpacked"):
        source.read(log)


@pytest.mark.parametrize("module", [gzip, lzma, bz2], ids=lambda module: module.__name__)
def test_a_packed_log_says_what_of_it_was_not_read(module: Any, tmp_path: Path) -> None:
    def first(content: bytes) -> str:
        log.write_bytes(content)
        return next(answer.lines(source.read(log)))

    log = tmp_path / "k.gz"
    kill = "\n".join(BARE).encode()
    right = next(answer.lines(read(kill)))
    begin = module.compress(b"[1.000000] usb 1-1: new device\n" * 9)
    assert first(begin * 1500 + module.compress(kill) + bytes(40)) == right
    cut = "the archive is cut: 9 lines were read before that"
    assert first(begin + module.compress(kill)[:20]) == (
        f"no kill for want of memory in this log: 9 lines were read; {cut}"
    )
    assert cut in memlab("diagnose", f"--last-kill={log}", "--json").stderr
    assert first(module.compress(kill) + b"x" * 40).startswith(f"{right}; 40 B behind the archive")
    log.write_bytes(module.compress(begin))
    with pytest.raises(CannotLook, match=r"packed twice: .* -dc "):
        source.read(log)


def test_a_log_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "k.gz"
    log.write_bytes(gzip.compress(b"x" * 100_000))
    monkeypatch.setattr(source, "_BYTES_MAX", 50_000)
    with pytest.raises(CannotLook, match="when it is unpacked"):
        source.read(log)


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        (b"LPKSHHRH", "journalctl -k --file"),
        (b"\x28\xb5\x2f\xfd", "zstd -dc"),
        (b"\x04\x22\x4d\x18", "lz4 -dc"),
        (lzma.compress(b"x", lzma.FORMAT_ALONE), "xz -dc"),
        (b"PK\x03\x04", "unzip -p"),
    ],
)
def test_a_file_that_is_no_text_is_not_a_log_without_a_kill(
    begin: bytes, words: str, tmp_path: Path
) -> None:
    log = tmp_path / "a b;id"
    log.write_bytes(begin + bytes(100))
    with pytest.raises(CannotLook) as error:
        source.read(log)
    assert f": {words} '{log}' > k.txt; give k.txt" in str(error.value)


def test_zeros_that_a_crash_left_and_sixteen_bits_without_a_mark() -> None:
    text = "\n".join(BARE)
    assert _same(text.encode() + bytes(4000)) == RIGHT
    assert _same(bytes(5000) + text.encode()) == RIGHT
    assert _same(text.encode("utf-16-le")) == RIGHT


@pytest.mark.parametrize("indent", [None, 1])
def test_beside_the_message_of_a_record_only_records_are_read(indent: int | None) -> None:
    others: tuple[dict[str, Any], ...] = (
        {"input": {"log": BARE[-1]}},
        {"annotations": {"example": {"message": BARE[-1]}}},
        {"cases": [BARE[-1]]},
        {"body": BARE[-1]},
    )
    for beside in others:
        text = json.dumps({"message": "test ok"} | beside, indent=indent)
        assert read(text).reports == [], beside
    lists: tuple[dict[str, Any], ...] = (
        {"results": [{"stdout": BARE[-1]}]},
        {"data": {"items": [{"log": BARE[-1]}]}},
        {"data": [["1790950447000000000", BARE[-1]]]},
        {"stdout": BARE[-1]},
    )
    for beside in lists:
        text = json.dumps({"msg": "success"} | beside, indent=indent)
        assert kill(text).killed == RIGHT.killed, beside
    deep: Any = BARE[-1]
    for _ in range(99):
        deep = {"a": [deep]}
    for record in ({"text": BARE[-1], "id": "x"}, {"message": "", "log": {"a": [BARE[-1]]}}, deep):
        assert kill(json.dumps(record, indent=indent)).killed == RIGHT.killed


DMESG = each(lambda i, line: f"[{BOOT}.{i:06}] {line}")
OTHER = "---\nmessage: x\ntime: 2026-10-02T14:14:07Z\n"
YAML_BESIDE = {
    "a heading": f"kind: Event\nmessage: x\ntimestamp: '{CLOCK}Z'\ndmesg of it:\n{DMESG}\n---\nend",
    "no heading": f"# report\n{OTHER}{DMESG}\n",
    "an empty line": f"a: b\n{OTHER}\n{DMESG}\n\n---\nend",
    "no stamp": f"a: b\n{OTHER}" + "\n".join(BARE),
    "many messages": f"a: b\n{OTHER}" + each(lambda _, line: f"message: '{line}'"),
    "indented": f"a: b\n{OTHER}status:\n" + textwrap.indent(DMESG, "  "),
    "a kill in another": f"{OTHER}s:\n{textwrap.indent(DMESG, '  ')}\n{OTHER}".replace(
        "---\nmessage: x", f"message: '{BARE[-2]}'", 1
    ),
}


@pytest.mark.parametrize("text", YAML_BESIDE.values(), ids=YAML_BESIDE)
def test_lines_beside_a_message_of_yaml_are_read(text: str) -> None:
    assert kill(text).killed == RIGHT.killed
    assert kill(text).limit_bytes == RIGHT.limit_bytes


def test_an_earlier_victim_that_is_reaped_within_a_report_is_not_its_victim() -> None:
    """The table of a report still lists who was killed just before, and is being reaped."""
    table, choice = "oom_reaper: reaped process 700 (old), now anon-rss:0kB", "oom-kill:"
    lines = V1.splitlines()
    at = next(number for number, line in enumerate(lines) if choice in line)
    lines.insert(at, f"[  41.6] {table}")
    whole, mixed = kill(V1), kill("\n".join(lines))
    assert (mixed.killed, mixed.group, mixed.processes) == (
        whole.killed, whole.group, whole.processes,
    )  # fmt: skip
    assert mixed.used_bytes == whole.used_bytes is not None
    text = printed("\n".join(lines))
    assert "earlier" not in text
    assert "also killed, without a report in this log: old" in text


def test_a_quoted_kill_of_a_whole_group_keeps_its_other_processes() -> None:
    first = V1.splitlines()[-1]
    second = first.replace("701", "702")
    whole = "[  41.6] Tasks in /job are going to be killed due to memory.oom.group set"
    found = kill(f"{first}\n{whole}\n{second}\n{V1}")
    assert [one.pid for one in found.killed] == [701, 702]
    assert found.used_bytes == kill(V1).used_bytes is not None


@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize("device", ["null", "zero"])
def test_what_is_no_kernel_log_is_not_read_without_end(device: str) -> None:
    """As many containers have it."""
    words = f"mount --bind /dev/{device} /dev/kmsg && exec timeout 60 {sys.executable} -m memlab "
    script = f"{words} diagnose --last-kill"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 3
    assert "/dev/kmsg: not the kernel's log here" in done.stderr
