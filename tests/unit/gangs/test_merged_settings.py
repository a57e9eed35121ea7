"""What all sources say of a gang is what it would be if all were put together again each time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from arranger.api.settings.gang_settings import GangSettings, Mode, combined
from arranger.gangs import merged_settings
from arranger.gangs.merged_settings import MergedSettings

MANY = 300


class AllAnew:
    """Puts all together again after each change."""

    def __init__(self) -> None:
        self.counts: dict[GangSettings, int] = {}
        self.pod_group = GangSettings()
        self.retained: dict[str, int] = {}
        self.retracted: set[str] = set()

    @property
    def settings(self) -> GangSettings:
        retained = GangSettings(bundle_minimums=tuple(self.retained.items()))
        return combined((*self.counts, self.pod_group, retained))

    def add(self, said: GangSettings, *, first: bool = False) -> None:
        if first:
            count = self.counts.pop(said, 0)
            self.counts = {said: count, **self.counts}
        self.counts[said] = self.counts.get(said, 0) + 1

    def drop(self, said: GangSettings) -> bool:
        self.counts[said] -= 1
        if self.counts[said]:
            return False
        del self.counts[said]
        return True

    def retract(self, said: GangSettings) -> None:
        named = {bundle for each in self.counts for bundle, _ in each.bundle_minimums}
        for bundle in dict(said.bundle_minimums).keys() - named:
            self.retained.pop(bundle, None)
            self.retracted.add(bundle)


def some_settings(rng: random.Random) -> GangSettings:
    bundles = {rng.choice("abc"): rng.randrange(1, 4) for _ in range(rng.randrange(3))}
    return GangSettings(
        minimum=rng.choice([None, 0, 1, 2]),
        mode=rng.choice([None, Mode.STRICT, Mode.NON_STRICT]),
        wait_time=rng.choice([None, 1.0, 2.0]),
        may_preempt=rng.choice([None, False, True]),
        bundle_minimums=tuple(bundles.items()),
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_same_as_if_all_were_put_together_anew(seed: int) -> None:
    rng, merged, anew = random.Random(seed), MergedSettings(), AllAnew()
    members = list[GangSettings]()
    for _ in range(80):
        said = some_settings(rng)
        match rng.randrange(7):
            case 0 | 1:
                members.append(said)
                merged.add_member(said)
                anew.add(said)
            case 2 | 3 if members:
                gone, moved = members.pop(rng.randrange(len(members))), rng.random() < 0.3
                merged.drop_member(gone, moved=moved)
                if anew.drop(gone):
                    if moved:
                        anew.retract(gone)
                    else:
                        anew.retained |= gone.bundle_minimums
            case 4 if members:
                number = rng.randrange(len(members))
                earlier, members[number] = members[number], said
                merged.edit_member(earlier, said)
                anew.drop(earlier)
                anew.add(said, first=True)
                anew.retract(earlier)
            case 5:
                anew.pod_group = rng.choice([said, GangSettings()])
                merged.set_pod_group(anew.pod_group)
            case 6:
                known = dict(said.bundle_minimums)
                merged.restore_bundles(known)
                kept = {b: n for b, n in known.items() if b not in anew.retracted}
                anew.retained = kept | anew.retained
        assert merged.settings == anew.settings
        merged.check_consistent(members)


def test_settings_that_nobody_changes_are_the_same_object() -> None:
    merged = MergedSettings()
    merged.add_member(first := GangSettings(minimum=2, bundle_minimums=(("a", 1),)))
    before = merged.settings
    merged.add_member(GangSettings(minimum=3))
    merged.drop_member(GangSettings(minimum=3), moved=False)
    assert merged.settings is before
    merged.drop_member(first, moved=False)
    assert merged.settings == GangSettings(bundle_minimums=(("a", 1),)), "its pods may come again"


#: What the member of a number says, each something else.
SAID: dict[str, Callable[[int], GangSettings]] = {
    "another minimum": lambda n: GangSettings(minimum=n + 1),
    "a bundle of its own": lambda n: GangSettings(bundle_minimums=((f"b{n}", 1),)),
    "to be with others": lambda n: GangSettings(groups=(f"default/x{n}",)),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_members_that_all_differ_cost_no_more_for_each_of_the_others(
    said: Callable[[int], GangSettings], backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, value_of = 0, MergedSettings._value_of

    def counting(self: MergedSettings, key: merged_settings.Key) -> object:
        nonlocal looked
        looked += 1
        return value_of(self, key)

    monkeypatch.setattr(MergedSettings, "_value_of", counting)
    monkeypatch.setattr(merged_settings, "combined", None)
    merged, members = MergedSettings(), [said(n) for n in range(MANY)]
    for each in members:
        merged.add_member(each)
    for number, each in enumerate(members):
        members[number] = GangSettings(minimum=MANY + number, bundle_minimums=(("e", number + 1),))
        merged.edit_member(each, members[number])
    for each in reversed(members) if backwards else members:
        merged.drop_member(each, moved=False)
    assert MANY < looked <= 10 * MANY
