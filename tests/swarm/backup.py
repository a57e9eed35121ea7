"""A backup of the server, as of etcd: what was written since is undone when it is restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from arranger.embedded.storage.store import Store
from tests.faults.injector import WATCHES, ClientRequest

#: Versions that ``etcdutl snapshot restore --bump-revision`` leaves out.
_BUMP = 1_000_000
#: Whom the server tells is no part of what it holds.
_NOT_HELD = "_listeners"


@dataclass(frozen=True, slots=True)
class Backup:
    """What a store held at a moment."""

    state: Mapping[str, Any]

    @staticmethod
    def of(store: Store) -> Backup:
        """The store as it is now."""
        return Backup(deepcopy({k: v for k, v in vars(store).items() if k != _NOT_HELD}))

    def restore(self, store: Store, *, bump: bool) -> Callable[[ClientRequest], bool]:
        """Put it back; watches must begin anew.

        Args:
            bump: whether its versions begin anew far beyond all that were given, and not at that of
                the backup. Objects have those that they had.

        Returns:
            The requests to watch from versions that it has not reached: it never tells them
            anything.
        """
        lost = store.version
        vars(store).update(deepcopy(dict(self.state)))
        reached = store.version
        if bump:
            store.version += _BUMP
            store.compact()
            return lambda call: False
        return lambda call: WATCHES(call) and reached < _version(call) <= lost


def _version(call: ClientRequest) -> int:
    return int(call.query.get("resourceVersion") or 0)
