"""The factors of a command: memory policies, variables of its environment, and placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from memlab.errors import BadLevels, nearest
from memlab.experiment.factor import Factor
from memlab.experiment.huge_pages import thp_kind
from memlab.experiment.kinds import At, Kind, Level, choice
from memlab.experiment.points import LONG
from memlab.text import units

LOCKS = ("current", "future", "future_onfault")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_ALLOCATORS = ("system", "glibc", "jemalloc", "tcmalloc", "mimalloc")
_SETTINGS = ("default", "never", "at_once", "no_trim", "no_mmap")  # observe/allocators.py


def _or(
    word: str,
    noun: str,
    parse: Callable[[str], Level],
    form: Callable[[Level], str],
    same: Sequence[str] = (),
) -> Kind:
    """A kind of number that has a word for "leave it as it is", and others that are the `same`."""

    def read(text: str) -> Level:
        return word if text in (word, *same) else parse(text)

    def write(level: Level) -> str:
        return word if level == word else form(level)

    return Kind(f"{noun}, or {word}", read, write, lambda level: read(str(level)))


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"{value} is out of bounds, {least} to {most}")
        return value

    return read


def _malloc(text: str) -> str:
    if text.startswith("/"):  # of a library
        if not re.search(r"\.so(\.\d+)*$", text) or re.search(r"[\s:]", text):
            raise ValueError(
                f"{text!r} names no library: a path that ends in .so, without blanks and colons"
            )
        return text
    allocator, sign, rest = re.fullmatch(r"(\w*)([/:]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if allocator not in _ALLOCATORS:
        raise ValueError(f"invalid value {text!r} (choose from {', '.join(_ALLOCATORS)}, /PATH.so)")
    if sign == "/" and rest not in _SETTINGS:
        raise ValueError(
            f"{allocator} has no setting {rest!r} (choose from {', '.join(_SETTINGS)})"
        )
    if sign == ":" and (not rest or allocator == "system"):
        raise ValueError(f"{text!r}: write options as in glibc:arena_max=1 or jemalloc:narenas:1")
    return text


def _limit(text: str) -> int:
    if size := units.parse_size(text):
        return size
    raise ValueError("0 leaves no memory to run in; write none for no limit")


def _size_text(level: Level) -> str:
    return units.format_size(int(level))


TEXT = Kind("text", str, str, str)
_LIMIT = _or("none", "size", _limit, _size_text, same=("off", "max"))
_NUMBER = _or("inherit", "count", _whole(3, 2**31 - 1), str)


POLICIES = {
    f.name: f
    for f in (
        Factor("lock", choice("off", *LOCKS), "lock; mlockall(2) before main, by a preload"),
        Factor(
            "malloc",
            Kind("allocator", _malloc, str, lambda level: _malloc(str(level))),
            "malloc; with a setting (jemalloc/never), options (glibc:arena_max=1) or of a library "
            "(/opt/libmy.so)",
        ),
        Factor(
            "thp",
            thp_kind("inherit", "never", "madvise", "always"),
            "transparent huge pages; never by prctl(2), madvise, always or only one size (64K) on "
            "the whole host",
        ),
        Factor("memory_max", _LIMIT, "memory limit; of the cgroup"),
        Factor("memory_high", _LIMIT, "memory.high; of the cgroup, v2 only"),
        Factor("swap", choice("none", "file", "zram"), "swap; an area of the run's own"),
        Factor(
            "page_cache",
            choice("kept", "dropped"),
            "page cache; of the program and the files that its words name, before each trial",
        ),
        Factor("overcommit", choice("inherit", "0", "1", "2"), "overcommit; of the whole host"),
        Factor("cpus", _or("all", "count", _whole(1, 4096), str), "CPUs; that it may use"),
        Factor("nice", Kind("nice value", _whole(-20, 19), str, lambda n: int(n)), "nice value"),
        Factor("stack", _or("inherit", "size", units.parse_size, _size_text), "stack limit"),
        Factor("nofile", _NUMBER, "open files; RLIMIT_NOFILE"),
        Factor("aslr", choice("on", "off"), "address space randomisation"),
    )
}


def factor_of(name: str, argv: Sequence[str]) -> Factor:
    """The factor of this name; BadLevels where the command has no such placeholder either."""
    if name in POLICIES:
        return POLICIES[name]
    if name.startswith("env.") and len(name) > 4 and "=" not in name:
        return Factor(name, TEXT, f"{name[4:]}; an environment variable")
    placeholders = _PLACEHOLDER.findall(" ".join(argv))
    if name in placeholders:
        return Factor(name, TEXT, f"{name}; in the command")
    known = [*POLICIES, "env.NAME", *dict.fromkeys(placeholders)]
    hint = nearest(name, known, "")
    raise BadLevels(
        f"no policy {name!r}, and no {{{name}}} in the command; {hint}{' ' if hint else ''}"
        f"policies: {', '.join(known)}"
    )


def read_policies(argv: Sequence[str], assignments: Sequence[str]) -> dict[str, list[str]]:
    """`lock=off,future` and the like, as lists of text. BadLevels where one cannot be read."""
    levels: dict[str, list[str]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        kind = factor_of(name, argv).kind
        if not equals or not text:
            raise BadLevels(f"-p {assignment!r}: write -p {name}=LEVEL,LEVEL")
        if name in levels:
            raise BadLevels(f"-p {name} is given twice; write its levels in one list")
        # A backslash keeps a comma that is part of a level.
        levels[name] = [level.replace("\\,", ",") for level in re.split(r"(?<!\\),", text)]
        if kind is not TEXT and ".." in text:  # a range: 1..8*2
            try:
                levels[name] = [str(level) for level in units.expand(text, kind.parse)]
            except ValueError as error:
                raise BadLevels(f"{name}: {error}") from None
    return levels


def check_policies(
    argv: Sequence[str], policies: Mapping[str, Sequence[object]]
) -> dict[str, list[Level]]:
    """Levels as text or values, checked, each once. BadLevels names what is wrong."""
    levels: dict[str, list[Level]] = {}
    for name, wanted in policies.items():
        factor = factor_of(name, argv)
        if not wanted:
            raise BadLevels(f"{name}: no level given")
        try:
            parsed = [factor.kind.parse(str(level)) for level in wanted]
        except ValueError as error:
            raise BadLevels(f"{name}: {error}") from None
        known: dict[object, Level] = {}
        for level in parsed:
            known.setdefault(_as_read(name, level), level)
        levels[name] = list(known.values())
        if len(levels[name]) < len(parsed) and len(levels[name]) == 1:
            raise BadLevels(
                f"{name}: its levels are the same, {factor.kind.format(parsed[0])}: "
                "name another to compare with"
            )
    return levels


def _as_read(name: str, level: Level) -> object:
    """What tells a level from another: glibc takes its tunables in any order, the last of a name
    (ld.so(8), GLIBC_TUNABLES)."""
    if name != "env.GLIBC_TUNABLES" or not isinstance(level, str):
        return level
    return frozenset(dict(part.partition("=")[::2] for part in level.split(":")).items())


def programs(word: str, levels: Mapping[str, Sequence[Level]]) -> list[str]:
    """What the first word of a command stands for, with each level of its placeholder."""
    names = [name for name in _PLACEHOLDER.findall(word) if name in levels]
    results = [{}] if not names else [{names[0]: level} for level in levels[names[0]]]
    return [fill(word, at) for at in results]


def fill(word: str, at: At) -> str:
    """A word of the command with the levels of its placeholders; other braces stay."""

    def level(match: re.Match[str]) -> str:
        return str(at[match[1]]) if match[1] in at else match[0]

    return _PLACEHOLDER.sub(level, word)


def with_levels(factor: Factor, levels: Sequence[Level]) -> Factor:
    checked = [factor.kind.check(level) for level in levels]
    named = _labels(factor, checked) if factor.kind is TEXT else _library_names(factor, checked)
    return Factor(factor.name, factor.kind, factor.help, checked, host=True, level_labels=named)


def _library_names(factor: Factor, levels: Sequence[Level]) -> dict[Level, str]:
    """Of allocators that are named by their paths: their files' names, if these differ."""
    paths = [str(level) for level in levels if factor.name == "malloc" and str(level)[:1] == "/"]
    names: dict[Level, str] = {path: PurePath(path).name for path in paths}
    return names if len(set(names.values())) == len(names) else {}


def _labels(factor: Factor, levels: Sequence[Level]) -> dict[Level, str]:
    """What tables and figures call a user's own words: themselves, and where they are long, a name
    that is short and of no other level."""
    of_environment = factor.name.startswith("env.")
    long = [str(level) for level in levels if len(str(level)) > LONG]
    tails = {level: f"{factor.label}=…{level[-LONG + 4 :]}" for level in long}
    if len(set(tails.values())) < len(long) or of_environment:
        tails = {level: f"{factor.label} {number}" for number, level in enumerate(long, 1)}
    if len(long) == 1 and of_environment:
        tails = {long[0]: f"{factor.label} set"}
    named: dict[Level, str] = {level: f"{factor.label}={level}" for level in levels}
    named.update(tails)
    if of_environment and "" in named:
        named[""] = f"{factor.label} as it is"
    elif "" in named:
        named[""] = f"{factor.label} empty"
    return named
