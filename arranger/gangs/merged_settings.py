"""The settings of a gang, of all sources, kept up to date without a look at all of its members."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from arranger.api.settings.gang_settings import (
    NO_SETTINGS,
    SINGLE_SETTINGS,
    GangSettings,
    combined,
)

#: What may be set: one of the settings, by its name; or the minimum of a bundle.
Key = str | tuple[str]


class _Said:
    """Settings that some members have in common, and how many of them."""

    __slots__ = ("count", "parts", "settings")

    def __init__(self, settings: GangSettings) -> None:
        self.settings, self.count = settings, 0
        self.parts = _parts(settings)


class MergedSettings:
    """What a gang's members say, then its PodGroup, then what is kept of bundles without pods.

    Of members that differ, those that were edited last come first, then the first that came. What a
    member costs that comes, goes or is edited depends on what it says itself, however many of the
    others say something else.

    Attributes:
        settings: the settings, merged.
        bundle_total: members that must run, of all bundles together.
    """

    def __init__(self) -> None:
        self.settings = NO_SETTINGS
        self.bundle_total = 0
        #: Distinct settings of the members, in their order.
        self._said: OrderedDict[GangSettings, _Said] = OrderedDict()
        #: What is set by members → by whom, in the same order, and to what.
        self._set_by: dict[Key, OrderedDict[_Said, Any]] = {}
        self._pod_group = NO_SETTINGS
        self._of_pod_group: dict[Key, Any] = {}
        #: Bundle whose pods are all gone → its minimum, which holds while the gang has pods.
        self._retained: dict[str, int] = {}
        #: Bundles that no pod names any more because pods were edited.
        self._retracted: set[str] = set()
        #: ``settings``, by what is set; and the minimums of bundles, in the order of their names.
        self._values: dict[Key, Any] = {}
        self._bundles: dict[Key, Any] = {}
        self._minimums: list[tuple[str, int]] = []

    # --- changes ---------------------------------------------------------------------------

    def add_member(self, settings: GangSettings) -> None:
        """A member has come that says this."""
        if (said := self._said.get(settings)) is None:
            said = self._add(settings)
            self._merge(said.parts)
        said.count += 1

    def edit_member(self, earlier: GangSettings, now: GangSettings) -> None:
        """A member says something else: that takes precedence over what the others say."""
        changed = self._drop(earlier)
        said = self._said.get(now) or self._add(now)
        said.count += 1
        self._said.move_to_end(now, last=False)
        for key in said.parts:
            self._set_by[key].move_to_end(said, last=False)
        self._retract(earlier)
        self._merge({**_parts(earlier), **changed, **said.parts})

    def drop_member(self, settings: GangSettings, *, moved: bool) -> None:
        """A member is gone, or has ``moved`` to another gang.

        The minimum of a bundle holds as long as the gang has any pods; but not where its owner has
        edited the last pod of it.
        """
        if not (changed := self._drop(settings)):
            return
        if moved:
            self._retract(settings)
        else:
            self._retained |= settings.bundle_minimums
        self._merge(changed)

    def set_pod_group(self, settings: GangSettings) -> None:
        """Its PodGroup says this, or there is none any more, which says nothing."""
        before, self._pod_group = self._of_pod_group, settings
        self._of_pod_group = _parts(settings)
        self._merge({**before, **self._of_pod_group})

    def restore_bundles(self, minimums: Mapping[str, int]) -> None:
        """Bundles that were known before a restart."""
        known = {b: n for b, n in minimums.items() if b not in self._retracted}
        self._retained = known | self._retained
        self._merge((bundle,) for bundle in known)

    # --- inside ----------------------------------------------------------------------------

    def _add(self, settings: GangSettings) -> _Said:
        """These come last of all that members say."""
        said = self._said[settings] = _Said(settings)
        for key, value in said.parts.items():
            if (setters := self._set_by.get(key)) is None:
                setters = self._set_by[key] = OrderedDict()
            setters[said] = value
        return said

    def _drop(self, settings: GangSettings) -> dict[Key, Any]:
        """One member fewer says this; what it has set if none does any more."""
        said = self._said[settings]
        said.count -= 1
        if said.count:
            return {}
        del self._said[settings]
        for key in said.parts:
            setters = self._set_by[key]
            del setters[said]
            if not setters:
                del self._set_by[key]
        return said.parts

    def _retract(self, earlier: GangSettings) -> None:
        """The owner has edited a pod: bundles that no pod names now hold no more."""
        for bundle, _ in earlier.bundle_minimums:
            if (bundle,) not in self._set_by:
                self._retained.pop(bundle, None)
                self._retracted.add(bundle)

    def _merge(self, keys: Iterable[Key]) -> None:
        """Something else may be set of these."""
        changed = False
        for key in keys:
            values = self._values if isinstance(key, str) else self._bundles
            value, before = self._value_of(key), values.get(key)
            if value == before:
                continue
            changed = True
            values.pop(key, None)
            if value is not None:
                values[key] = value
            if isinstance(key, tuple):
                self._set_minimum(key, before, value)
        if changed:
            single = {str(name): value for name, value in self._values.items()}
            self.settings = GangSettings(**single, bundle_minimums=tuple(self._minimums))

    def _value_of(self, key: Key) -> Any:
        """To what it is set; None if nobody sets it."""
        if setters := self._set_by.get(key):
            return next(iter(setters.values()))
        if key in self._of_pod_group:
            return self._of_pod_group[key]
        return None if isinstance(key, str) else self._retained.get(key[0])

    def _set_minimum(self, key: tuple[str], before: int | None, now: int | None) -> None:
        """The minimum of a bundle is another; None: there is no such bundle."""
        place = bisect_left(self._minimums, key)
        self._minimums[place : place + (before is not None)] = [] if now is None else [(*key, now)]
        self.bundle_total += (now or 0) - (before or 0)

    def check_consistent(self, members: Iterable[GangSettings]) -> None:
        """Check against what the members say, in any order.

        Raises:
            AssertionError: the settings are not what all sources say.
        """
        counted = {settings: said.count for settings, said in self._said.items()}
        assert counted == Counter(members), "settings of members"
        retained = GangSettings(bundle_minimums=tuple(self._retained.items()))
        sources = (*self._said, self._pod_group, retained)
        assert combined(sources) == self.settings, "combined settings"
        assert self.bundle_total == sum(n for _, n in self.settings.bundle_minimums), "total"


def _parts(settings: GangSettings) -> dict[Key, Any]:
    """What these set, and to what."""
    found = dict[Key, Any]()
    for name in SINGLE_SETTINGS:
        if (value := getattr(settings, name)) is not None:
            found[name] = value
    for bundle, minimum in settings.bundle_minimums:
        found.setdefault((bundle,), minimum)
    return found
