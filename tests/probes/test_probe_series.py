"""A series reaches Python as what was added, and says what was lost."""

from memlab import _probes, probe

lib, ffi = _probes.lib, _probes.ffi


def read(series: object) -> object:
    return probe._value(ffi.typeof("struct probe_series"), series)


def test_a_series_is_what_was_added() -> None:
    series = ffi.new("struct probe_series *")
    assert read(series[0]) == {"at_ns": [], "values": [], "lost": 0}
    for i in range(23):
        lib.probe_series_add(series, i, 100 + i)
    assert read(series[0]) == {
        "at_ns": list(range(23)),
        "values": list(range(100, 123)),
        "lost": 0,
    }


def test_what_does_not_fit_is_counted() -> None:
    series = ffi.new("struct probe_series *")
    for i in range(lib.PROBE_SERIES_MOST + 7):
        lib.probe_series_add(series, i, i)
    assert series.count == lib.PROBE_SERIES_MOST
    assert series.lost_count == 7
