"""The options of each malloc that decide when freed memory goes back to the kernel.

Sources: jemalloc(3) and jemalloc's own headers of 4.0.0 to 5.3.0 for the defaults; gperftools'
docs/tcmalloc.html; mimalloc's src/options.c of v1.7.0 to v3.0.1; glibc's manual, "Memory
Allocation Tunables".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Version = tuple[int, ...]

VARIABLES = {"jemalloc": "MALLOC_CONF"}
"""The variable of a build without a prefix of its own."""

_GLIBC_TUNABLES = (2, 26)  # the release that brought GLIBC_TUNABLES
_MIMALLOC_PURGES = (2, 1, 2)  # options named decommit before, purge since
_GLIBC_NAMES = {
    "MALLOC_TRIM_THRESHOLD_": "trim_threshold",
    "MALLOC_TOP_PAD_": "top_pad",
    "MALLOC_MMAP_THRESHOLD_": "mmap_threshold",
    "MALLOC_MMAP_MAX_": "mmap_max",
    "MALLOC_ARENA_MAX": "arena_max",
}
# Setting any of these ends glibc's own adjusting of the two thresholds (mallopt(3)).
_END_ADJUSTING = ("trim_threshold", "top_pad", "mmap_threshold", "mmap_max")


@dataclass(frozen=True, slots=True)
class MallocOption:
    """One option in force, and what set it."""

    name: str
    value: str
    source: str


def in_force(
    name: str, version: Version, variable: str, environ: Mapping[str, str], link: str | None
) -> tuple[MallocOption, ...]:
    """What was set in the environment and in /etc/malloc.conf, then the version's defaults.

    What the program sets by calls (mallopt, mallctl) or compiles in is not seen.
    """
    options: dict[str, MallocOption] = {}
    given = tuple(_given(name, variable, environ, link))
    adjusts = not any(option.name in _END_ADJUSTING for option in given)
    for option in (*_defaults(name, version, adjusts=adjusts), *given):
        options.pop(option.name, None)  # the later source wins, and is printed in its place
        options[option.name] = option
    return tuple(reversed(options.values()))


def gives_back_at_once(name: str, options: Mapping[str, str]) -> bool:
    """Whether the options in force leave no time for freed memory to be used again."""
    wanted = {
        "jemalloc": ("dirty_decay_ms", "decay_time"),
        "tcmalloc": ("TCMALLOC_AGGRESSIVE_DECOMMIT",),
        "mimalloc": ("MIMALLOC_PURGE_DELAY", "MIMALLOC_DECOMMIT_DELAY"),
    }.get(name, ())
    eager = {"TCMALLOC_AGGRESSIVE_DECOMMIT": ("1", "t", "true", "yes")}
    return any(options.get(option, "").lower() in eager.get(option, ("0",)) for option in wanted)


def kept(name: str, version: Version, variable: str) -> dict[str, str]:
    """The environment, in this version's words, that keeps freed memory for the next allocation."""
    match name:
        case "jemalloc" if not version or version >= (5,):
            return {variable: "dirty_decay_ms:-1,muzzy_decay_ms:-1"}
        case "jemalloc" if version >= (4, 1):
            return {variable: "purge:decay,decay_time:-1"}
        case "jemalloc":
            return {variable: "lg_dirty_mult:-1"}
        case "tcmalloc":
            return {"TCMALLOC_AGGRESSIVE_DECOMMIT": "0", "TCMALLOC_RELEASE_RATE": "0"}
        case "mimalloc" if not version or version >= (2, 1):
            return {"MIMALLOC_PURGE_DELAY": "-1"}
        case "mimalloc" if version >= (2,):
            return {"MIMALLOC_ALLOW_DECOMMIT": "0"}
        case "mimalloc":
            return {"MIMALLOC_PAGE_RESET": "0"}
        # 4 GiB for trimming, and the largest threshold that glibc takes for mmap, 32 MiB.
        case "glibc" if not version or version >= _GLIBC_TUNABLES:
            trim, piece = "glibc.malloc.trim_threshold", "glibc.malloc.mmap_threshold"
            return {"GLIBC_TUNABLES": f"{trim}=4294967296:{piece}=33554432"}
        case "glibc":
            return {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_THRESHOLD_": "33554432"}
    return {}


def changed(variable: str, now: str, wanted: str) -> str:
    """The value of a variable with `wanted` in it, beside what else was set."""
    between, sets = {"GLIBC_TUNABLES": (":", "=")}.get(variable, (",", ":"))
    if sets not in wanted:
        return wanted  # a number alone
    named = {part.partition(sets)[0] for part in wanted.split(between)}
    others = [part for part in now.split(between) if part.partition(sets)[0] not in named]
    return between.join([*filter(None, others), wanted])


def keeping(name: str, version: Version, variable: str) -> str:
    """`kept` in words."""
    settings = kept(name, version, variable)
    if not settings:
        return "this malloc has no such setting: another one can be preloaded (LD_PRELOAD)"
    words = " and ".join(f"{key}={value}" for key, value in settings.items())
    if name in ("tcmalloc", "mimalloc"):
        newer = name == "mimalloc" and len(version) < 3 and "MIMALLOC_PURGE_DELAY" in settings
        older = " (MIMALLOC_ALLOW_DECOMMIT=0 before 2.1.2)" if newer else ""
        return f"{words}: give nothing back{older}"
    words += f" keep{'s' if len(settings) == 1 else ''} what was freed, at its peak"
    if name == "jemalloc" and (not version or version >= (5,)):
        return f"{words}; {variable}=dirty_decay_ms:10000 keeps it for 10 s"
    if name == "jemalloc" and version >= (4, 1):
        return f"{words}; {variable}=purge:decay,decay_time:10 keeps it for 10 s"
    return words


def _given(
    name: str, variable: str, environ: Mapping[str, str], link: str | None
) -> Iterator[MallocOption]:
    if name == "jemalloc":
        yield from _pairs(link or "", "/etc/malloc.conf", ":")
        yield from _pairs(environ.get(variable, ""), variable, ":")
    elif name == "glibc":
        for old, new in _GLIBC_NAMES.items():
            if old in environ:
                yield MallocOption(new, environ[old], old)
        for option in _pairs(environ.get("GLIBC_TUNABLES", ""), "GLIBC_TUNABLES", "="):
            if option.name.startswith("glibc.malloc."):
                yield MallocOption(option.name.rpartition(".")[2], option.value, option.source)
    elif name in ("tcmalloc", "mimalloc"):
        for key, value in environ.items():
            if key.upper().startswith(f"{name.upper()}_"):
                yield MallocOption(key.upper(), value, key)


def _pairs(text: str, source: str, between: str) -> Iterator[MallocOption]:
    """``dirty_decay_ms:0,narenas:2``, or ``glibc.malloc.top_pad=4096:...``."""
    for part in re.split("," if between == ":" else ":", text):
        name, found, value = part.partition(between)
        if found:
            yield MallocOption(name.strip(), value.strip(), source)


def _defaults(name: str, version: Version, *, adjusts: bool) -> Iterator[MallocOption]:
    """`adjusts`: whether glibc raises its thresholds by itself."""
    if not version:
        return
    source = f"default of {name} {'.'.join(map(str, version))}"
    match name:
        case "jemalloc" if version >= (5,):
            yield MallocOption("muzzy_decay_ms", "0" if version >= (5, 2) else "10000", source)
            yield MallocOption("dirty_decay_ms", "10000", source)
        case "jemalloc" if version >= (4, 1):
            yield MallocOption("decay_time", "10", source)
            yield MallocOption("purge", "ratio", source)
            yield MallocOption("lg_dirty_mult", "3", source)
        case "jemalloc":
            yield MallocOption("lg_dirty_mult", "3", source)
        case "tcmalloc":
            yield MallocOption("TCMALLOC_RELEASE_RATE", "1", source)
        case "mimalloc" if version >= _MIMALLOC_PURGES:
            delay = "2500" if version >= (3,) else "10"
            yield MallocOption("MIMALLOC_PURGE_DELAY", delay, source)
        case "glibc":
            for option, most in (("mmap_threshold", 33554432), ("trim_threshold", 67108864)):
                rising = f", rising to {most}" if adjusts else ""
                yield MallocOption(option, f"131072{rising}", source)
