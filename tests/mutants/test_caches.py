"""What functions have worked out before is worked out anew with each mutant."""

from __future__ import annotations

from functools import cache

from arranger.api.bounded_cache import bounded_cache
from tests.mutants.caches import caches


def test_results_of_both_kinds_of_caches_are_forgotten() -> None:
    asked: list[str] = []

    @cache
    def one(text: str) -> int:
        asked.append(text)
        return len(text)

    @bounded_cache(8)
    def other(text: str) -> int:
        asked.append(text)
        return len(text)

    for _ in range(2):
        assert (one("a"), other("bc"), one("a"), other("bc")) == (1, 2, 1, 2)
        assert asked == ["a", "bc"]
        for clear in caches():
            clear()
        asked.clear()
