"""release_notes.py VERSION: the section of CHANGELOG.md for a version that is the package's own."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version() -> str:
    text = (ROOT / "memlab" / "_version.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.M)[0]


def notes(changelog: str, version: str) -> str:
    """The text below `## VERSION`, up to the next version; '' where there is no such heading."""
    sections = re.split(r"^## ", changelog, flags=re.M)[1:]
    found = [s for s in sections if re.match(rf"\[?{re.escape(version)}\]?(\s|$)", s)]
    return found[0].partition("\n")[2].strip() if found else ""


def main(asked: str) -> int:
    if asked != version():
        print(f"the tag is of {asked}, memlab/_version.py says {version()}", file=sys.stderr)
        return 1
    text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), asked)
    if not text:
        print(f"CHANGELOG.md has no section '## {asked}'", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
