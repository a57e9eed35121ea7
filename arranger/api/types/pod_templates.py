"""The parts of a pod template that controllers read before the API server has checked it.

A definition keeps whatever a template holds, so a template may be of any shape.
"""

from __future__ import annotations

from typing import Any

import msgspec

from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.nesting import TOO_DEEP, is_too_deep
from arranger.api.parsing.objects import convert_object
from arranger.api.quantity import RawQuantity
from arranger.api.types.core import Struct
from arranger.api.types.job_limits import (
    MAX_CONTAINERS,
    MAX_LABEL,
    MAX_TEMPLATE_BYTES,
    MAX_TEMPLATE_RESOURCES,
    check_number,
)


class TemplateMetadata(Struct):
    """``metadata``."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None


class Named(Struct):
    """A variable, a volume or its mount."""

    name: str


class TemplatePort(Struct):
    """``ports[]`` of a container."""

    container_port: int
    name: str | None = None


class TemplateResources(Struct):
    """``resources`` of a container."""

    limits: dict[str, RawQuantity] | None = None
    requests: dict[str, RawQuantity] | None = None


class TemplateContainer(Struct):
    """A container."""

    name: str
    env: list[Named] | None = None
    ports: list[TemplatePort] | None = None
    volume_mounts: list[Named] | None = None
    resources: TemplateResources | None = None


class TemplatePodSpec(Struct):
    """``spec``."""

    containers: list[TemplateContainer]
    init_containers: list[TemplateContainer] | None = None
    volumes: list[Named] | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None

    def __post_init__(self) -> None:
        """Check its size.

        Raises:
            ValueError: it is larger than a template may be, or names hosts as no pod may be named:
                each pod of a job says the names of all others.
        """
        containers = [*self.containers, *(self.init_containers or ())]
        check_number("containers", len(containers), MAX_CONTAINERS)
        given = (each.resources for each in containers if each.resources is not None)
        resources = sum(len(each.limits or ()) + len(each.requests or ()) for each in given)
        check_number("resources", resources, MAX_TEMPLATE_RESOURCES)
        check_number("characters of hostname", len(self.hostname or ""), MAX_LABEL)
        check_number("characters of subdomain", len(self.subdomain or ""), MAX_LABEL)


class PodTemplate(Struct):
    """The template."""

    spec: TemplatePodSpec
    metadata: TemplateMetadata | None = None


def template_problem(template: dict[str, Any]) -> str:
    """What of a template cannot be read, "" for nothing."""
    return _size_problem(template) or _problem(template, PodTemplate)


def volumes_problem(volumes: list[dict[str, Any]]) -> str:
    """What of some volumes cannot be read, "" for nothing."""
    return _size_problem(volumes) or _problem(volumes, list[Named])


def _size_problem(value: Any) -> str:
    """Why a part of a job cannot be written into each of its pods, "" for nothing."""
    size, problem = _size(value)
    if not problem and size > MAX_TEMPLATE_BYTES:
        problem = f"{size} bytes are more than {MAX_TEMPLATE_BYTES}"
    return problem


def encoded_bytes(value: Any) -> int:
    """How many bytes a part of a job has as JSON; 0 where it cannot be written."""
    return _size(value)[0]


def depth_problem(value: Any) -> str:
    """Why a part of a job cannot be written into other objects, "" for nothing."""
    return _size(value)[1]


def _size(value: Any) -> tuple[int, str]:
    """(bytes as JSON, why it cannot be written: "" for nothing).

    Levels are counted: how many can be written hangs on how many calls whoever writes is inside.
    """
    try:
        encoded = msgspec.json.encode(value)
    except RecursionError:
        return 0, TOO_DEEP
    except (OverflowError, ValueError, TypeError) as error:
        return 0, cut_message(str(error))
    # What has too many bytes is not looked through.
    deep = len(encoded) <= MAX_TEMPLATE_BYTES and is_too_deep(encoded)
    return len(encoded), TOO_DEEP if deep else ""


def _problem(value: Any, kind: Any) -> str:
    try:
        convert_object(value, kind)
    except ParseError as error:
        return str(error)
    return ""
