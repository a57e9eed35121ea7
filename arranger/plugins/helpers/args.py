"""What the arguments of all plugins have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ArgsSection(BaseModel):
    """Part of a plugin's arguments, with the field names of KubeSchedulerConfiguration."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )


class PluginArgs(ArgsSection):
    """A plugin's arguments; ``apiVersion`` and ``kind`` may stay in when they are copied."""

    api_version: str = ""
    kind: str = ""


class ResourceSpec(ArgsSection):
    """A resource that counts in a score, and its weight."""

    name: str
    weight: Annotated[int, Field(ge=1, le=100)] = 1


#: The resources that count unless configured.
CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
