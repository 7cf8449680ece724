"""Kernels at hand: found, told apart, taken out of packages of whatever kind."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from memlab.cli import cli
from memlab.errors import BadRequest, CannotRun
from memlab.machines.guest import kernels
from memlab.run import kernel
from memlab.run.kernel import Kernel

BANNER = "7.1.3+deb13-amd64 (x@y) #1 SMP PREEMPT_DYNAMIC Debian 7.1.3-1 (2026-07-01)"
RELEASE = "7.1.3+deb13-amd64"


def vmlinuz(banner: str = BANNER) -> bytes:
    head = bytearray(0x600)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x200)
    head[0x400 : 0x400 + len(banner)] = banner.encode()
    return bytes(head)


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def with_modules(base: Path, release: str = RELEASE) -> None:
    modules = base / "lib/modules" / release
    put(modules / "modules.dep", "kernel/virtio_pci.ko:\nkernel/virtio_console.ko:\n")
    put(modules / "modules.builtin", "")


@pytest.mark.parametrize(
    ("banner", "version", "released"),
    [
        (BANNER, "7.1.3", "2026-07-01"),
        ("6.1.0-56-amd64 (x) #1 SMP Debian 6.1.192-2 (2026-11-16)", "6.1.192", "2026-11-16"),
        ("6.9.0-rc1 (me@home) #3 SMP Thu Aug  7 12:00:00 UTC 2025", "6.9.0", "2025-08-07"),
        ("own", "own", None),
    ],
)
def test_what_an_image_says_of_itself(banner: str, version: str, released: str | None) -> None:
    read = Kernel(Path("vmlinuz"), banner.split()[0], banner)
    assert (read.version, read.released) == (version, released)


def test_a_folder_is_listed_with_what_boots_and_why_not(tmp_path: Path) -> None:
    put(tmp_path / "a/boot" / f"vmlinuz-{RELEASE}", vmlinuz())
    put(
        tmp_path / "a/boot" / f"config-{RELEASE}",
        "CONFIG_LRU_GEN=y\n# CONFIG_MEMCG_V1 is not set\n",
    )
    with_modules(tmp_path / "a")
    put(tmp_path / "b/usr/lib/modules/6.9.1/vmlinuz", vmlinuz("6.9.1 (x)"))
    put(tmp_path / "c/vmlinuz-arm64", b"MZ\0" * 400)
    found = {one.version: one for one in kernels.at_hand(tmp_path)}
    assert list(found) == ["vmlinuz-arm64", "6.9.1", "7.1.3"]
    assert found["7.1.3"].why == ""
    assert found["7.1.3"].options == {"LRU_GEN": "y", "MEMCG_V1": "n"}
    assert "has no modules.dep" in found["6.9.1"].why
    assert "is not a bootable kernel" in found["vmlinuz-arm64"].why


def test_a_list_names_kernels_by_version_or_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("6.1.3", "6.1.20", "6.12.1"):
        put(tmp_path / version / "boot" / f"vmlinuz-{version}", vmlinuz(f"{version} (x)"))
        with_modules(tmp_path / version, version)
    monkeypatch.setattr(kernel, "folder", lambda: tmp_path)
    monkeypatch.setattr(kernels.at_hand, "__defaults__", (None, tmp_path / "no root"))
    monkeypatch.setattr(kernel._at_hand, "__defaults__", (tmp_path / "no root",))

    def chosen(*words: str) -> list[str]:
        return [one.version for one in kernels.choose(words)]

    assert chosen("6.12", "6.1") == ["6.1.20", "6.12.1"]
    assert chosen("6.1.3") == chosen(str(tmp_path / "6.1.3")) == ["6.1.3"]
    assert chosen() == ["6.1.3", "6.1.20", "6.12.1"]
    for find in (lambda: kernels.choose(["5.4"]), lambda: kernel.find("5.4")):
        with pytest.raises(BadRequest, match=r"no kernel '5\.4' is at hand"):
            find()
    for name, version in {"6.1": "6.1.20", "6.1.3": "6.1.3"}.items():
        assert kernel.find(name).version == version
    newest = kernel.default(tmp_path / "no root")
    assert newest
    assert newest.version == "6.12.1"


def package(folder: Path, name: str, members: dict[str, bytes | str]) -> Path:
    """A Debian package of these files; a text is a link to there."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, what in members.items():
            member = tarfile.TarInfo(path)
            if isinstance(what, str):
                member.type, member.linkname = tarfile.SYMTYPE, what
                archive.addfile(member)
            else:
                member.size, member.mode = len(what), 0o4777
                archive.addfile(member, io.BytesIO(what))
    control = io.BytesIO()
    with tarfile.open(fileobj=control, mode="w") as archive:
        text = f"Package: {name}\nVersion: 1\nArchitecture: all\n".encode()
        member = tarfile.TarInfo("./control")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    path, parts = folder / f"{name}.deb", [("debian-binary", b"2.0\n")]
    parts += [("control.tar", control.getvalue()), ("data.tar", content.getvalue())]
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for part, body in parts:
            file.write(f"{part:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode())
            file.write(body + b"\n" * (len(body) % 2))
    return path


@pytest.mark.needs("dpkg-deb")
def test_a_split_package_is_put_together(tmp_path: Path) -> None:
    under, place = f"./usr/lib/modules/{RELEASE}", tmp_path / "kernels"
    binary = package(tmp_path, "binary", {f"{under}/vmlinuz": vmlinuz()})
    modules = package(
        tmp_path, "modules", {f"{under}/kernel/a.ko": b"", f"{under}/modules.order": b""}
    )
    found, refused = kernels.unpack([modules], place)
    assert (found, refused) == (
        [],
        [f"{RELEASE} has no image yet: unpack its linux-binary or linux-image package too"],
    )
    found, refused = kernels.unpack([binary], place)
    assert refused == []
    assert [one.path for one in found] == [place / RELEASE / "lib/modules" / RELEASE / "vmlinuz"]
    assert (place / RELEASE / "lib/modules" / RELEASE / "kernel/a.ko").exists()
    assert not list(place.glob(".unpack-*"))


@pytest.mark.needs("dpkg-deb")
def test_of_a_hostile_package_only_plain_files_of_a_kernel_are_taken(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside/precious", "kept")
    hostile = package(
        tmp_path,
        "hostile",
        {
            "../../outside/precious": b"gone",
            str(outside): b"gone",
            f"boot/vmlinuz-../../../{outside.name}": b"gone",
            f"./lib/modules/{RELEASE}/x": str(outside.parent),
            f"./lib/modules/{RELEASE}/x/precious": b"gone",
            f"./boot/vmlinuz-{RELEASE}": vmlinuz(),
            "./etc/passwd": b"root",
        },
    )
    place = tmp_path / "kernels"
    found, _ = kernels.unpack([hostile], place)
    assert [one.version for one in found] == ["7.1.3"]
    assert outside.read_text() == "kept"
    written = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())
    assert written == [
        f"{RELEASE}/boot/vmlinuz-{RELEASE}",
        f"{RELEASE}/lib/modules/{RELEASE}/x/precious",
    ]
    assert all(p.stat().st_mode & 0o7111 == 0 for p in place.rglob("*") if p.is_file())


@pytest.mark.needs("dpkg-deb")
def test_what_is_no_kernels_package_is_a_line_and_the_others_are_taken(tmp_path: Path) -> None:
    good = package(tmp_path, "good", {f"boot/vmlinuz-{RELEASE}": vmlinuz()})
    other = package(tmp_path, "other", {"usr/bin/true": b""})
    junk, cut = (
        put(tmp_path / "junk.deb", "junk"),
        put(tmp_path / "cut.deb", good.read_bytes()[:700]),
    )
    found, refused = kernels.unpack([junk, other, cut, tmp_path / "none.deb", good], tmp_path / "k")
    assert [one.version for one in found] == ["7.1.3"]
    assert refused[:2] == [
        "junk.deb: no Debian package",
        "other.deb: no kernel and no modules are in it",
    ]
    assert [line.partition(":")[0] for line in refused[2:4]] == [
        "cut.deb",
        str(tmp_path / "none.deb"),
    ]
    assert refused[4:] == [f"{RELEASE} has no modules yet: unpack its linux-modules package too"]


@pytest.mark.needs("dpkg-deb")
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    put(tmp_path / "file", "")
    with pytest.raises(CannotRun, match=r"cannot write .*/file: Not a directory"):
        kernels.unpack([], tmp_path / "file")


def test_what_is_missing_is_suggested_where_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of each minor version; of a split kernel all parts, or nothing."""
    machine = {"x86_64": "amd64"}.get(os.uname().machine, "arm64")
    listed = [
        "linux-image-6.12.9",
        "linux-image-6.12.10",
        "linux-image-6.1.0-5",
        "linux-image-6.12",
    ]
    listed += [f"linux-{part}-7.2.1" for part in ("image", "base", "binary", "modules")]
    listed += ["linux-image-7.0.1", "linux-binary-7.0.1"]
    text = "\n".join(f"{name}-{machine}" for name in listed)
    monkeypatch.setattr(kernels.guest_tools, "find", lambda _: "apt-cache")
    done = subprocess.CompletedProcess([], 0, text, "")
    monkeypatch.setattr(kernels.subprocess, "run", lambda *_, **__: done)
    have = kernels.Found(Path("vmlinuz"), Kernel(Path("vmlinuz"), "6.1.7"))
    parts = " ".join(
        f"linux-{part}-7.2.1-{machine}" for part in ("base", "binary", "image", "modules")
    )
    assert kernels.suggest("6.1", "7.3", [have]) == [
        f"apt-get download linux-image-6.12.10-{machine}",
        f"apt-get download {parts}",
        "memlab kernels fetch linux-*.deb",
    ]
    assert kernels.suggest("6.1", "6.2", [have]) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["7.3", "6.1"], "the older one first: memlab kernels fetch 6.1 7.3"),
        (["6.1", "6.2"], "the package lists here have no kernel from 6.1 to 6.2 but those at hand"),
    ],
)
def test_what_nothing_is_suggested_for_says_why(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_listed", list)
    done = CliRunner().invoke(cli, ["kernels", "fetch", *words])
    assert said in f"{done.output}{done.exception}"


def test_a_refused_package_is_an_empty_list_of_json(tmp_path: Path) -> None:
    (package := tmp_path / "a.deb").write_bytes(b"no archive")
    done = CliRunner().invoke(cli, ["kernels", "fetch", "--json", str(package)])
    assert json.loads(done.stdout) == []
    assert isinstance(done.exception, CannotRun)


def test_an_image_that_is_not_there_is_said_of_the_option_that_took_it() -> None:
    found = kernels.look(Path("/nonexist"))
    assert found.why == "no kernel at /nonexist; this option takes a vmlinuz"
