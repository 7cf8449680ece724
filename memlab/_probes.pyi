"""The compiled probes, as cffi presents them: every name is made from a C declaration."""

from typing import Any

ffi: Any
lib: Any
