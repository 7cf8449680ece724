"""What the build wrote down of the probes: see experiments/_build_probes.py."""

COMPILER: str
FLAGS: str
HASHES: dict[str, str]  # by probe
ENUMS: dict[str, dict[str, int]]  # level to value, by the enum's tag
PARAMS: dict[str, dict[str, str]]  # by probe: param to int, bool, str, array or `enum TAG`
FIELDS: dict[str, list[str]]  # by probe: the path of each field of its result
