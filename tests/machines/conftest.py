"""The kernel that guests boot here, or why none does."""

import needs
import pytest


@pytest.fixture(scope="session")
def guest_kernel() -> str:
    """$GUEST_KERNEL, else the newest that is installed."""
    needs.of("qemu", "busybox", "modprobe", "guest kernel")
    return needs.guest_kernel() or ""
