"""A machine in words, of the environment that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def machine_of(environment: Mapping[str, Any]) -> str:
    """`AMD EPYC, Linux 6.18.44-generic`: where a run was measured."""
    cpu = environment.get("cpu_model") or "unknown CPU"
    return f"{cpu}, Linux {kernel_of(environment)}"


def kernel_of(environment: Mapping[str, Any]) -> str:
    return str(environment.get("kernel_release") or "unknown")
