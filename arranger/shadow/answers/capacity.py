"""How much more fits: copies of a job now, and the fewest nodes that would take so many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from arranger.api import annotations as keys
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.json_text import parse_json
from arranger.api.types.core import Pod
from arranger.shadow.forecasts.added_nodes import add_nodes
from arranger.shadow.forecasts.branch import Branch
from arranger.shadow.forecasts.changes import ChangeError, ClusterChange, create, node_of
from arranger.shadow.forecasts.comparison import PresentState
from arranger.shadow.forecasts.forecast import Driver
from arranger.shadow.inputs.objects import CLUSTER_WIDE, Change

#: Pods of copies that are tried at most, and nodes that are added at most.
MAX_PODS: Final = 4096
MAX_ADDED: Final = 1024
#: Labels and annotations that name the gang of a pod.
_GANG_KEYS: Final = (
    keys.GANG_NAME,
    keys.POD_GROUP,
    keys.POD_GROUP_NAME,
    keys.POD_GROUP_X,
    keys.BUNDLE_GANG,
    keys.VOLCANO_GROUP,
    keys.VOLCANO_GROUP_LONG,
)
#: Annotations that list the gangs that start together.
_GROUP_KEYS: Final = (keys.GANG_GROUPS, keys.GANG_GROUPS_ALIAS)

#: Fields of pods that name what comes with them.
_REFERENCES: Final = (
    "claimName",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "podGroupName",
)

Manifest = Mapping[str, Any]


class NodesNeeded(msgspec.Struct, frozen=True):
    """What would take the copies that were asked for.

    Attributes:
        like: a node of that kind.
        count: how many more of it; None where not even many would do.
    """

    like: str
    count: int | None


class CapacityAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How many copies of something fit, as ``arranger capacity -o json`` prints it.

    Attributes:
        copies: how many fit now, without anybody being evicted, beside all that waits already.
        at_most: whether that is as many as were tried: more may fit.
        blocked: pod of the first copy that does not fit → why.
        wanted: how many copies were asked about with ``--copies``; 0 for none.
        nodes: the fewest nodes of each kind with which these fit.
    """

    copies: int
    at_most: bool
    blocked: dict[str, str]
    wanted: int = 0
    nodes: list[NodesNeeded] = []


@dataclass(frozen=True, slots=True)
class Capacity:
    """Asks how many copies of some objects fit.

    Attributes:
        manifests: one copy, its pods included.
        wanted: of how many copies nodes are to be found for; 0 for none.
        like: nodes of the kinds that may be added.
    """

    manifests: Sequence[Manifest]
    wanted: int = 0
    like: Sequence[str] = ()
    kind: ClassVar[Any] = CapacityAnswer

    def answer(self, driver: Driver) -> CapacityAnswer:
        """See :class:`~arranger.shadow.shadow.Question`.

        Raises:
            ChangeError: there is no pod in a copy, or no node to be like.
            ObjectError: an object cannot be read.
        """
        pods = sum(each["kind"] == "Pod" for each in self.manifests)
        if not pods:
            raise ChangeError("there is no pod in it, nor anything that makes pods")
        for name in self.like:
            node_of(driver.objects, name)
        limit = max(MAX_PODS // pods, 1)
        driver.settle()  # what moves whether or not there are copies has moved
        blocked: dict[str, str] = {}

        def fits(copies: int, nodes: Sequence[ClusterChange] = ()) -> bool:
            if copies == 0:
                return True
            told = self._try(driver, copies, nodes)
            if told:
                blocked.clear()
                blocked.update(told)
            return not told

        copies = most(fits, limit)
        told = dict(blocked)
        enough = self.wanted <= copies
        needed = [
            NodesNeeded(name, 0 if enough else fewest(self._with(fits, name), MAX_ADDED))
            for name in self.like
            if self.wanted
        ]
        return CapacityAnswer(copies, copies >= limit, told, self.wanted, needed)

    def _with(self, fits: Callable[..., bool], name: str) -> Callable[[int], bool]:
        """Whether the copies that are wanted fit with so many more nodes."""
        return lambda count: fits(self.wanted, [add_nodes(count, name)])

    def _try(self, driver: Driver, copies: int, nodes: Sequence[ClusterChange]) -> dict[str, str]:
        """Pod → why, of those that are not placed; "" for one that is not waiting either."""
        labels = [kind.label for kind in driver.config.workload_kinds() if kind.label]
        made = [each for n in range(copies) for each in copy_of(self.manifests, n, labels)]
        pods = {_key(each) for each in made if each["kind"] == "Pod"}
        owners = {each["metadata"].get("uid") for each in made if each["kind"] == "DaemonSet"}

        def attempt() -> dict[str, str]:
            changes = driver.change([create(made, f"{copies} copies"), *nodes])
            more = {each.key for each in _new_pods(changes) if _owner(each) in owners}
            after = PresentState.of(driver.settle())
            evicted = {key: f"evicts {key}" for key in after.evicted}
            left = sorted((pods | more) - after.nodes.keys())
            missing = {key: after.waiting.get(key, "") for key in left}
            return {**missing, **evicted}

        return Branch[dict[str, str]].start(attempt, dict[str, str]).result()


def most(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number for which ``fits`` holds, which holds for all smaller ones."""
    good, bad = 0, 1
    while bad <= limit and fits(bad):
        good, bad = bad, bad * 2
    bad = min(bad, limit + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def fewest(fits: Callable[[int], bool], limit: int) -> int | None:
    """The smallest number for which ``fits`` holds, which holds for all larger ones."""
    bad, good = 0, 1
    while not fits(good):
        if good >= limit:
            return None
        bad, good = good, min(good * 2, limit)
    while good - bad > 1:
        middle = (good + bad) // 2
        bad, good = (bad, middle) if fits(middle) else (middle, good)
    return good


def copy_of(
    manifests: Sequence[Manifest], number: int, labels: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """The objects under other names; what names one of them, or their gang, is changed alike.

    What is of no namespace is there once for all copies.

    ``labels``: of pods, that name their owners.
    """
    own = [each for each in manifests if each["kind"] not in CLUSTER_WIDE]
    names = {each["metadata"]["name"] for each in own}

    def renamed(name: str) -> str:
        """The name of a part, alone or behind its namespace."""
        space, slash, last = name.rpartition("/")
        return f"{space}{slash}{last}-copy-{number}"

    copies = [deepcopy(dict(each)) for each in manifests if each["kind"] in CLUSTER_WIDE]
    for each in own:
        made = deepcopy(dict(each))
        meta = made["metadata"]
        meta["name"] = renamed(meta["name"])
        if meta.get("uid"):
            meta["uid"] = f"{meta['uid']}-copy-{number}"
        for section in ("labels", "annotations"):
            said = meta.get(section) or {}
            said |= {key: renamed(said[key]) for key in (*_GANG_KEYS, *labels) if key in said}
            said |= {key: _each_renamed(said[key], renamed) for key in _GROUP_KEYS if key in said}
        for owner in meta.get("ownerReferences") or ():
            owner["uid"] = f"{owner.get('uid', '')}-copy-{number}"
            if owner.get("name") in names:
                owner["name"] = renamed(owner["name"])
        if made["kind"] == "Pod":
            _rename_references(made["spec"], names, renamed)
        copies.append(made)
    return copies


def _each_renamed(text: str, renamed: Callable[[str], str]) -> str:
    """A list of gangs, renamed; what is none stays as it is, and is told of the copies."""
    try:
        named = parse_json(text)
    except ParseError:
        return text
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return text
    return msgspec.json.encode([renamed(name) for name in named]).decode()


def _rename_references(
    spec: dict[str, Any], names: set[str], renamed: Callable[[str], str]
) -> None:
    """What comes with the pods is of their copy, too: claims and groups."""
    parts = [volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or ()]
    parts += [*(spec.get("resourceClaims") or ()), spec.get("schedulingGroup")]
    for part in filter(None, parts):
        for field in _REFERENCES:
            if part.get(field) in names:
                part[field] = renamed(part[field])


def _new_pods(changes: Sequence[Change]) -> Iterator[Pod]:
    for each in changes:
        if each.before is None and isinstance(each.after, Pod):
            yield each.after


def _owner(pod: Pod) -> str:
    controller = pod.metadata.controller
    return controller.uid if controller is not None else ""


def _key(pod: Manifest) -> str:
    meta = pod["metadata"]
    return f"{meta.get('namespace') or 'default'}/{meta['name']}"
