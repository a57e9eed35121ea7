"""The reasons of the Events that are written, from ``arranger/api/event_reasons.py``."""

from __future__ import annotations

from itertools import groupby

from arranger.api import event_reasons
from docs.generator.constants import constants
from docs.generator.crds import enum
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "What `kubectl get events` shows as the reason. Texts of `FailedScheduling` are told in "
    "[Why is my pod pending?](../guide/why-pending.md). Plugins of your own may add reasons."
)

#: Jobs also have an event whose reason is their new phase or stage.
STAGES = {
    "Volcano Jobs": ("jobs.batch.volcano.sh", "state", "phase"),
    "TYJobs": ("tyjobs.arranger.io", "stage"),
}


def page() -> str:
    """One table for each object that events are about."""
    lines = heading("Events", "`arranger/api/event_reasons.py`", INTRODUCTION)
    for section, found in groupby(constants(event_reasons), key=lambda each: each.section):
        lines += [f"## {section[:1].upper()}{section[1:]}", ""]
        rows = [[code(each.value), each.meaning] for each in found]
        if section in STAGES:
            name, *path = STAGES[section]
            rows += [
                [code(stage), f"The job is in this {path[-1]} now."] for stage in enum(name, path)
            ]
        lines += table(["reason", "when"], rows)
    return text_of(lines)
