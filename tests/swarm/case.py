"""A small world as a file that a person can read, and play again."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tests.swarm.world import Event, Fault, Object, World, dump, load

_HEAD = "# "


def write_case(world: World, violations: Sequence[str], *, minimal: bool = True) -> str:
    """The world as YAML; what is wrong, and what happens in it, stand before it as comments."""
    said = ["What is wrong:"]
    said += [f"  {violation}" for violation in violations]
    said += ["", "What happens:", *(f"  {line}" for line in story(world))]
    if not minimal:
        said += ["", "Something may still be left out."]
    if manifests(world) is not None:
        said += [
            "",
            "No fault is needed, and nothing comes late: `python -m tests.swarm.case FILE` prints",
            "manifests for `arranger simulate -f MANIFESTS --seed " + f"{world.seed}`.",
        ]
    comments = "".join(f"{_HEAD}{line}".rstrip() + "\n" for line in said)
    return comments + dump(world)


def story(world: World) -> Iterator[str]:
    """What is there, what happens and what goes wrong, a line each, by time."""
    if world.objects:
        yield f"at the start there are {_listed(world.objects)}"
    timed = [
        *((event.at, _told(event)) for event in world.events),
        *((fault.at, _told_of_fault(fault)) for fault in world.faults),
    ]
    for at, text in sorted(timed, key=lambda each: each[0]):
        yield f"{at:g}s: {text}"
    last = max((at for at, _ in timed), default=0.0)
    yield f"{max(last, world.seconds):g}s: nothing more happens, and the cluster comes to rest"


def manifests(world: World) -> str | None:
    """The world's objects for ``arranger simulate``; None if it takes more than them."""
    if world.faults or world.events:
        return None
    return yaml.safe_dump_all(world.objects, sort_keys=False, width=100)


def _told(event: Event) -> str:
    what = named(event.object)
    match event.does:
        case "create":
            return f"{what} is created"
        case "put":
            return f"{what} is there, past all that the server checks"
        case "patch":
            part = f"the {event.part} of " if event.part else ""
            return f"{part}{what} is changed: {_in_one_line(event.change)}"
        case "bind":
            return f"somebody else binds {what} to {event.node}"
        case "delete":
            slowly = f", and takes {event.grace}s to go" if event.grace else ""
            return f"{what} is deleted{slowly}"


def _told_of_fault(fault: Fault) -> str:
    whose = f" of {fault.whom}" if fault.whom else ""
    many = [f"the first {fault.skip} are spared"] if fault.skip else []
    many += [f"{fault.times} at most"] if fault.times else []
    many += [f"{fault.chance:.0%} of them"] if fault.chance != 1 else []
    many += [f"by {fault.seconds:g}s"] if fault.seconds else []
    many += [f"status {fault.status}"] if fault.status else []
    many += [f"for {fault.lasts:g}s"] if fault.lasts else []
    return f"{fault.does}: {fault.what}{whose}" + (f" ({', '.join(many)})" if many else "")


def _listed(objects: Sequence[Object]) -> str:
    return ", ".join(map(named, objects))


def named(obj: Object) -> str:
    """Kind, namespace and name."""
    meta = obj.get("metadata", {})
    namespace = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind')} {namespace}{meta.get('name')}"


def _in_one_line(value: Object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()


def main(path: str) -> int:
    """Print the manifests of a case; 1 if it takes more than them."""
    found = manifests(load(Path(path).read_text(encoding="utf-8")))
    sys.stdout.write(found or "It takes events or faults: `make swarm` plays them.\n")
    return int(found is None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
