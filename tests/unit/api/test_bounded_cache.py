"""A cache keeps results of short arguments only."""

from __future__ import annotations

from arranger.api.bounded_cache import MAX_LENGTH, bounded_cache

LONG = "x" * (MAX_LENGTH + 1)


def test_results_of_short_arguments_are_kept_and_of_long_ones_worked_out_anew() -> None:
    asked: list[object] = []

    @bounded_cache(2)
    def size(texts: tuple[str | None, ...], more: str = "") -> int:
        asked.append(texts)
        return len(texts)

    for _ in range(3):
        assert size(("a", None), "b") == 2
    assert len(asked) == 1
    for times in range(1, 4):
        assert size(("a", LONG)) == 2
        assert len(asked) == 1 + times
