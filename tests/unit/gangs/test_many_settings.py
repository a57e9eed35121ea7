"""A gang whose members all say something else costs no more for each that comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.settings.gang_membership import gang_membership
from arranger.gangs import merged_settings
from arranger.gangs.merged_settings import MergedSettings
from arranger.gangs.registry import GangRegistry
from tests.builders import a_pod

MEMBERS = 200
_KEY = "gang.scheduling.koordinator.sh/"
#: What the member of a number says.
SAID = {
    "another minimum": lambda n: {_KEY + "min-available": str(n + 1)},
    "another wait time": lambda n: {_KEY + "waiting-time": f"{n + 1}s"},
    "to be with others": lambda n: {_KEY + "groups": f'["default/g", "default/x{n}"]'},
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_earlier_members_say_is_not_put_together_again_for_each_that_comes(
    said: Callable[[int], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, looked_at, value_of = GangRegistry(), 0, MergedSettings._value_of

    def counting(self: MergedSettings, key: merged_settings.Key) -> object:
        nonlocal looked_at
        looked_at += 1
        return value_of(self, key)

    monkeypatch.setattr(MergedSettings, "_value_of", counting)
    for number in range(MEMBERS):
        notes = said(number)
        pod = a_pod(f"p{number}").in_gang("g").annotated(notes).build()
        registry.on_pod_updated(pod, gang_membership(pod))
    assert 0 < looked_at <= 10 * MEMBERS
    registry.check_consistent()
    first = gang_membership(a_pod("p0").in_gang("g").annotated(said(0)).build())
    assert first is not None
    assert registry.gangs["default/g"].settings == first.settings, "the first that says it"
