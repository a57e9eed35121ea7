"""Who is let in, beside an exact answer in small worlds: Hall's theorem, for all sets of cards.

What others ask for and a request fit together where, for each set of cards, those who may have none
but these ask for no more than is left of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from tests.builders import a_queue
from tests.unit.quota.test_admission import a_group, an_admission

CARDS = "ABCD"
#: What may be let in that would not fit: of so many kinds of requests not all are compared.
RARE = 0.01

Asked = tuple[frozenset[str], int]


def fits(asked: Sequence[Asked], quota: dict[str, int]) -> bool:
    sets = (frozenset(each) for n in range(5) for each in combinations(CARDS, n))
    return all(
        sum(n for names, n in asked if names & quota.keys() <= cards)
        <= sum(quota.get(name, 0) for name in cards)
        for cards in sets
    )


def a_request(rng: random.Random) -> dict[str, int]:
    kinds = ("|".join(rng.sample(CARDS, rng.randint(1, 3))) for _ in range(rng.randint(1, 2)))
    return {kind: rng.randint(1, 4) for kind in kinds}


@pytest.mark.parametrize("cards", [1, 2, 3, 4])
def test_nobody_is_refused_who_fits_and_hardly_anybody_let_in_who_does_not(cards: int) -> None:
    rng, refused, wrong = random.Random(cards), 0, 0
    worlds = 400
    for _ in range(worlds):
        quota = {name: rng.randint(0, 4) for name in CARDS[:cards]}
        admission = an_admission(a_queue("training", cards=quota))
        waiting: list[Asked] = []
        for n in range(5):
            request = a_request(rng)
            asked = [(frozenset(kind.split("|")), count) for kind, count in request.items()]
            exact = fits([*waiting, *asked], quota)
            let_in = not admission.admit([a_group(f"g{n}", request)], lambda n=n: (n,), 0.0)
            assert let_in or not exact, f"{request} is refused beside {waiting} of {quota}"
            refused += not let_in
            if let_in:
                waiting += asked
            if let_in and not exact:
                wrong += 1
                break
    assert refused > worlds, "there is much to refuse"
    assert wrong <= RARE * worlds
    assert cards > 2 or not wrong, "of two cards all are compared"
