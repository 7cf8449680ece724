"""thp-cost's settings of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlab.experiments import thp_cost

HUGE, SMALL = ({"pages": pages, "folio": thp_cost.HUGE_BYTES} for pages in ("huge", "small"))


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ("always madvise [never]", "madvise"),
        ("always [madvise] never", None),
        ("[always] madvise never", None),
        (None, None),
    ],
)
def test_huge_pages_are_switched_on_where_the_host_has_none(
    enabled: str | None, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel with under 512 MiB has none; what an administrator chose besides is left alone."""
    file = tmp_path / "enabled"
    if enabled:
        file.write_text(enabled)
    monkeypatch.setattr(thp_cost, "ENABLED", str(file))
    thp_cost.switched_off.cache_clear()
    try:
        assert thp_cost.settings(HUGE) == ({str(file): expected} if expected else {})
        assert thp_cost.settings(SMALL) == {}
    finally:
        thp_cost.switched_off.cache_clear()
