"""Nodes that take no pods, as a pod is on them of which it is not known what it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from arranger.api.types.core import Node


@dataclass(slots=True, eq=False)
class ClosedNodes:
    """Which nodes are closed, and what they would offer.

    For everybody else a closed node is there with its pods, and offers nothing.
    """

    #: Uid of a pod that is not counted → its node.
    _node_of: dict[str, str] = field(default_factory=dict, init=False)
    #: Closed node → what was last said of it; without those never seen.
    _stated: dict[str, Node] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._node_of or self._stated)

    def __contains__(self, name: str) -> bool:
        return name in self._node_of.values()

    def closes(self, name: str) -> bool:
        """Whether a node that is there takes no pods."""
        return name in self._stated and name in self

    def as_counted(self, node: Node) -> Node:
        """A node that appeared or was edited, as it counts."""
        if not self._node_of or node.metadata.name not in self:
            return node
        self._stated[node.metadata.name] = node
        # Which resources it names stays: what its pods are charged follows from that.
        nothing = dict.fromkeys(node.status.allocatable, "0")
        return Node(
            node.metadata, node.spec, msgspec.structs.replace(node.status, allocatable=nothing)
        )

    def as_stated(self, node: Node) -> Node:
        """A node that counts, as it was last said to be."""
        return self._stated.get(node.metadata.name, node)

    def forget_node(self, name: str) -> None:
        """A node is gone; should it come back with the same pods, it is closed."""
        self._stated.pop(name, None)

    def close_for(self, uid: str, node: str) -> None:
        """A pod is on that node, and is not counted."""
        self._node_of[uid] = node

    def end(self, uid: str) -> None:
        """A pod is counted, or takes nothing any more."""
        self._node_of.pop(uid, None)

    def take_open(self) -> list[Node]:
        """The nodes that are closed no more, each once."""
        opened = [name for name in self._stated if name not in self]
        return [self._stated.pop(name) for name in opened]
