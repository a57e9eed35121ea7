"""Harm of a world: objects that once brought down a process, or held it for long.

Those of :mod:`tests.swarm.worlds.tenants` are small and of all kinds; these are of few kinds, and
as large as they have to be. What Python's objects cannot hold stands in a world as a mark, which
what the server sends is written out from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeVar

from arranger.api import annotations
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.transport.hook import Passage, RequestHook
from arranger.embedded.virtual_time import virtual_now
from arranger.kube.client.transport import Request
from tests.builders import Manifest
from tests.hostile.attack import CULPRIT, Attack
from tests.hostile.expansion import Expansions, expanded
from tests.hostile.tables import audit, tenancy
from tests.swarm.world import Event, Object, an_event

T = TypeVar("T")

#: How many there are in a world.
_SOME: Final = (3, 8)
#: Besides, so many of those by which controllers died, and of those with annotations of no sense.
_MORE: Final = 2
#: Seconds between the first of them and the last, of those that things happen in.
_WITHIN: Final = 0.8
#: What an annotation says, of all that it could.
_TEXTS: Final = (
    "5,000 digits",
    "4,298 digits",
    "100,000 brackets",
    "20,000 braces",
    "a card with an exponent",
    "a card that is a list",
)
#: Annotations that are read as JSON, by the first words of their constants, and how deep they are.
_READ_AS_JSON: Final = ("GANG_GROUPS", "CARD_")
_LEVELS: Final = 10_000
#: What is too large for a world that is played in seconds: each pod of a job is one too many.
_TOO_LARGE: Final = re.compile(
    r" 10,000 (?:workers|pods)|1,000 (?:sets|tasks)|million digits|,000,000 digits"
)
#: Kinds whose definition may have been another one, that let in what it refuses now.
_DEFINED: Final = ("TYJob", "Job", "PodGroup")
#: Nodes as the attacks call them, and as worlds do.
_NODE: Final = re.compile(r"^(slice-)?node-(\d+)$")


def some_harm(rng: random.Random, seconds: float) -> tuple[list[Manifest], list[Event]]:
    """What is there at first, and what comes and goes again."""
    events: list[Event] = []
    others = random.Random()
    others.setstate(rng.getstate())
    some = rng.randint(*_SOME)
    attacks = [rng.choice(rng.choice(_kinds())) for _ in range(some)]
    attacks += [rng.choice(_shapes()) for _ in range(_MORE)]
    attacks += others.sample(_notes(), _MORE)
    for number, attack in enumerate(attacks):
        at = rng.uniform(1.0, seconds * _WITHIN)
        for obj in attack.objects:
            made = _moved({**obj, "metadata": _named(obj["metadata"], number)})
            made = _following(made, attack, number)
            does: Any = "create"
            if made["kind"] in _DEFINED and rng.random() < 0.6:
                does = "put"
            events.append(an_event(at, does, made))
            gone = min(seconds, at + rng.choice([8.0, 30.0, seconds]))
            events.append(an_event(gone, "delete", made))
    return [_moved(each) for each in tenancy.devices()], events


@cache
def _kinds() -> Sequence[Sequence[Attack]]:
    """The attacks by what they are about; each kind is as likely as another."""
    notes = chain(
        (each for each in audit.annotations() if each.name.endswith(_TEXTS)), _deep_notes()
    )
    costly = [*tenancy.costly()]
    kinds: list[Iterator[Attack]] = [audit.amounts(), notes, audit.deep(), audit.templates()]
    selectors = (each for each in costly if each.name.startswith("a claim selects"))
    kinds += [audit.counts(), chain(selectors, _selectors_without_end())]
    kinds.append(each for each in costly if "5,000 resources" in each.name)
    return [[each for each in kind if _is_of_a_tenant(each)] for kind in kinds]


def _deep_notes() -> Iterator[Attack]:
    """Annotations that are deep, and neither too long to be looked at nor to be let in."""
    text = "[" * _LEVELS + "]" * _LEVELS
    notes = {name: text for name in vars(annotations) if name.startswith(_READ_AS_JSON)}
    for kind, make in (
        ("pod", audit.pod),
        ("PodGroup", audit.pod_group),
        ("Volcano Job", audit.job),
        ("TYJob", audit.tyjob),
    ):
        made = audit.annotated(make(f"deep-notes-{kind[0].lower()}"), **notes)
        yield Attack(f"all annotations of a {kind} are {_LEVELS:,} brackets deep", [made])


def _selectors_without_end() -> Iterator[Attack]:
    """Selectors that take a minute for each device, if they are let."""
    for depth in (5, 6):
        text = "true"
        for level in range(depth):
            text = f"{list(range(40))}.all(v{level}, {text})"
        name, request = f"endless-{depth}", {"deviceClassName": "gpu"}
        asked = {**request, "selectors": [{"cel": {"expression": text}}]}
        used = [{"name": "c", "resourceClaimName": name}]
        yield Attack(
            f"a claim selects devices by {40**depth:,} turns",
            [
                audit.claim(name, requests=[{"name": "r", "exactly": asked}]),
                audit.pod(f"uses-{name}", resourceClaims=used),
            ],
        )


@cache
def _shapes() -> Sequence[Attack]:
    """Templates of TYJobs by which controllers died: too few to be met among all the others."""
    odd = ("a port without a number", "initContainers that are null", "an empty variable")
    return [each for each in audit.templates() if each.name.endswith(odd) and "TYJob" in each.name]


@cache
def _notes() -> Sequence[Attack]:
    """Objects of which every annotation is deep, or a number of thousands of digits."""
    ends = ("brackets deep", "digits")
    notes = chain(audit.annotations(), _deep_notes())
    every = (each for each in notes if each.name.startswith("all annotations"))
    return [each for each in every if each.name.endswith(ends) and _is_of_a_tenant(each)]


def _is_of_a_tenant(attack: Attack) -> bool:
    objects = chain(attack.objects, attack.edits)
    spaces = {each["metadata"].get("namespace") for each in objects}
    return spaces == {CULPRIT} and not _TOO_LARGE.search(attack.name)


def _named(meta: Object, number: int) -> Object:
    return {**meta, "name": f"{meta['name']}-h{number}"}


def _following(obj: Object, attack: Attack, number: int) -> Object:
    """Pods use the claims of their own attack."""
    names = {each["metadata"]["name"] for each in attack.objects}
    claims = obj.get("spec", {}).get("resourceClaims") if isinstance(obj.get("spec"), dict) else ()
    for each in claims or ():
        if each.get("resourceClaimName") in names:
            each["resourceClaimName"] += f"-h{number}"
    return obj


def _moved(value: Any) -> Any:
    """The same about nodes of these worlds."""
    if isinstance(value, dict):
        return {key: _moved(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each) for each in value]
    return _NODE.sub(r"\1n\2", value) if isinstance(value, str) and len(value) < 20 else value


def put(cluster: EmbeddedCluster, obj: Object) -> None:
    """An object is there as it is, as if another definition had let it in."""
    resource = cluster.registry.by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None, obj["kind"]
    version = cluster.store.version
    made = {"uid": f"00000000-0000-4000-8000-{version:012}", "generation": 1}
    date = virtual_now().isoformat(timespec="seconds").replace("+00:00", "Z")
    meta = {**obj["metadata"], **made, "creationTimestamp": date}
    cluster.store.put(resource.storage_key, resource.to_storage({**obj, "metadata": meta}))


class Expanding:
    """A hook that writes marks out in whatever another lets pass."""

    def __init__(self, inner: RequestHook) -> None:
        self._inner, self._expansions = inner, Expansions()

    async def around_request(
        self, request: Request, user: str, respond: Callable[[], T]
    ) -> T | ApiResponse:
        """See :class:`~arranger.embedded.transport.hook.RequestHook`."""
        answer = await self._inner.around_request(request, user, respond)
        return await self._expansions.around_request(request, user, lambda: answer)

    def passage(self, request: Request, user: str, line: bytes) -> Passage | None:
        """See :class:`~arranger.embedded.transport.hook.RequestHook`."""
        text = expanded(line)
        found = self._inner.passage(request, user, text)
        return Passage((text + b"\n",)) if found is None and text is not line else found
