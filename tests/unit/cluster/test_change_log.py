"""The log of changes that caches follow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arranger.cluster.change_log import ChangeLog


@given(limit=st.integers(2, 9), count=st.integers(0, 40), version=st.integers(-1, 40))
def test_a_reader_gets_all_it_missed_or_is_told_to_start_over(
    limit: int, count: int, version: int
) -> None:
    log: ChangeLog[int] = ChangeLog(limit)
    for number in range(count):
        log.append(number)
    assert log.version == count
    if version <= count:
        since = log.since(version)
        if version > count - limit // 2 and version >= 0:
            assert since is not None, "the younger half is kept"
        assert since is None or since == list(range(version, count))
    assert log.since(-1) is None, "whoever has seen nothing starts over"
