"""Every annotation and label that is read or written, from the modules that name them."""

from __future__ import annotations

from arranger.api import annotations as keys
from arranger.embedded import kubelet
from docs.generator.constants import Constant, constants
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "An annotation, unless it says label. Those of Kubernetes itself are not listed. How gangs, "
    "queues and jobs use them is told in [Gangs](../guide/gangs.md), [Queues](../guide/queues.md), "
    "[TYJobs](../guide/tyjob.md) and [Volcano Jobs](../guide/vcjob.md)."
)
#: What the constants of a module are about, where its sections do not say so.
SECTIONS = {kubelet: "the embedded cluster"}
#: The section of keys that Kubernetes documents itself.
UPSTREAM = "Kubernetes"


def page() -> str:
    """One table for each section of the modules."""
    lines = heading("Annotations and labels", "the constants of `arranger/api`", INTRODUCTION)
    sections: dict[str, list[Constant]] = {}
    for module in (keys, *SECTIONS):
        for constant in constants(module):
            section = SECTIONS.get(module) or constant.section
            if _is_key(constant.value) and section != UPSTREAM:
                sections.setdefault(section, []).append(constant)
    for section, found in sections.items():
        lines += [f"## {section[:1].upper()}{section[1:]}", ""]
        lines += table(["key", "meaning"], [[code(each.value), each.meaning] for each in found])
    return text_of(lines)


def _is_key(value: str) -> bool:
    """Not an API version, nor a value."""
    return value == keys.POD_GROUP or ("/" in value and "/v1" not in value)
