"""An extender of a world: it refuses some nodes to some pods, scores the others, and fails."""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections.abc import Callable
from typing import Any, Final

from arranger.api.extenders import Extender
from arranger.kube.client.transport import TransportError
from tests.swarm.world import Object

_URL: Final = "http://extender.example/scheduler"
#: That a call fails while things go wrong.
_FAILS: Final = 0.1


def an_extender(*, ignorable: bool, binds: bool = False) -> dict[str, Any]:
    """It as configuration files name it."""
    return {
        **({"bindVerb": "bind"} if binds else {}),
        "urlPrefix": _URL,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": ignorable,
        "httpTimeout": "5s",
    }


def refuses(pod: Object, node: str) -> bool:
    """Whether the extender refuses a node to a pod, now and for ever, by what it asks for.

    Pods that are alike are asked about once.
    """
    asked = [each.get("resources", {}).get("requests") for each in pod["spec"]["containers"]]
    return zlib.crc32(f"{json.dumps(asked, sort_keys=True)} on {node}".encode()) % 4 == 0


class SwarmExtender:
    """Answers calls in this process.

    Args:
        bind: binds a pod, (namespace, name, uid, node); whether the server has done that.

    Attributes:
        fails: whether some of the calls fail.
    """

    def __init__(self, rng: random.Random, bind: Callable[[str, str, str, str], bool]) -> None:
        self.fails = True
        self._rng = rng
        self._bind = bind

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """Answer a verb, or fail: with an error, without an answer, or too late."""
        del extender
        await asyncio.sleep(self._rng.choice([0.001, 0.01, 0.2]))
        if verb == "bind":
            return await self._answer_bind(json.loads(body))
        if self.fails and self._rng.random() < _FAILS:
            match self._rng.randrange(3):
                case 0:
                    return 500, b"the extender fails on purpose"
                case 1:
                    raise TransportError("lost on purpose")
                case _:
                    await asyncio.sleep(3600.0)
        asked = json.loads(body)
        pod, nodes = asked["Pod"], asked["NodeNames"]
        if verb == "filter":
            bad = {node: "the extender refuses it" for node in nodes if refuses(pod, node)}
            good = [node for node in nodes if node not in bad]
            return 200, json.dumps({"NodeNames": good, "FailedNodes": bad}).encode()
        scores = [{"Host": node, "Score": len(node) % 10} for node in nodes]
        return 200, json.dumps(scores).encode()

    async def _answer_bind(self, asked: dict[str, str]) -> tuple[int, bytes]:
        """Bind, or not, or say nothing before or after that."""
        fault = self._rng.randrange(8) if self.fails else 7
        if fault == 0:
            return 200, b'{"Error": "the extender fails on purpose"}'
        if fault == 1:
            raise TransportError("lost on purpose")
        pod = asked["PodNamespace"], asked["PodName"], asked["PodUID"]
        done = self._bind(*pod, asked["Node"])
        if fault == 2:
            raise TransportError("lost on purpose, and done")
        return 200, b"{}" if done else b'{"Error": "the server refuses it"}'

    async def close(self) -> None:
        """Nothing is open."""
