"""Creating and changing objects."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arranger.embedded import Object, errors
from arranger.embedded.builtin import defaults
from arranger.embedded.builtin.validation import (
    KINDS_WITH_GENERATION,
    raise_if_invalid,
    validate_create,
    validate_update,
)
from arranger.embedded.crd import definitions
from arranger.embedded.errors import ApiError, conflict, not_found
from arranger.embedded.handlers.delete import Deleter
from arranger.embedded.registry import Registry, Resource
from arranger.embedded.routing import Target
from arranger.embedded.storage.store import Store

#: Characters of generated names; no vowels, so that no words form (apimachinery's alphabet).
_NAME_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_OTHER_UID: Final = "Precondition failed: UID in precondition does not match"
_DEFINITION: Final = "CustomResourceDefinition"


@dataclass(slots=True)
class ObjectWriter:
    """Writes objects to one store.

    Given objects are parsed by ``bodies``: without nulls, and free to be changed.
    """

    store: Store
    registry: Registry
    deleter: Deleter
    #: The time so many seconds from now, as objects have it.
    timestamp: Callable[[int], str]
    rng: random.Random

    def create(self, target: Target, obj: Object, *, dry_run: bool) -> Object:
        """Create an object; returns it as it is then.

        Raises:
            ApiError: it is refused.
        """
        resource, meta = target.resource, obj.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            suffix = self.rng.choices(_NAME_SUFFIX_ALPHABET, k=5)
            meta["name"] = meta["generateName"] + "".join(suffix)
        if target.namespace:
            meta["namespace"] = target.namespace
            if self.store.get("/namespaces", ("", target.namespace)) is None:
                raise not_found("namespaces", target.namespace)
        defaults.set_defaults(resource, obj, self.store, self.timestamp(0))
        self._check_schema(resource, obj, None)
        validate_create(resource, obj)
        if self.store.get(resource.storage_key, (target.namespace, meta["name"])) is not None:
            raise errors.already_exists(resource.plural, resource.group, meta["name"])
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(name, None)
        meta["uid"] = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.timestamp(0)
        if resource.kind in KINDS_WITH_GENERATION or resource.custom:
            meta["generation"] = 1
        schemas = definitions.version_schemas(obj) if resource.kind == _DEFINITION else {}
        if schemas:
            obj["status"] = definitions.accepted_status(obj, self.timestamp(0))
        if dry_run:
            return obj
        if schemas:
            self.store.start_resource(f"{obj['spec']['group']}/{obj['spec']['names']['plural']}")
            self.registry.define(obj, schemas)
        stored = self.store.put(resource.storage_key, resource.to_storage(obj))
        self.deleter.garbage.attempt_to_delete(meta["uid"])
        return resource.from_storage(stored)

    def replace(self, target: Target, given: Object, *, dry_run: bool) -> tuple[Object, bool]:
        """Replace an object; returns the new state, and whether it was created.

        Raises:
            ApiError: it is refused.
        """
        resource = target.resource
        before = self.store.get(resource.storage_key, (target.namespace, target.name))
        if before is None:
            if resource.kind == "Lease":
                # A resourceVersion of a deleted object is ignored, a uid is refused.
                meta = {k: v for k, v in given["metadata"].items() if k != "resourceVersion"}
                if meta.get("uid"):
                    raise conflict(resource.qualified_name, target.name, _OTHER_UID)
                return self.create(target, {**given, "metadata": meta}, dry_run=dry_run), True
            raise not_found(resource.qualified_name, target.name)
        meta = given["metadata"]
        if not meta.get("resourceVersion") and (resource.custom or resource.kind == "Lease"):
            why = "Invalid value: 0: must be specified for an update"
            cause = ("FieldValueInvalid", "metadata.resourceVersion", why)
            raise_if_invalid(resource, given, [cause])
        _check_version(resource, before, meta)
        return self._update(target, resource.from_storage(before), given, dry_run), False

    def patch(self, target: Target, before: Object, patched: Object, *, dry_run: bool) -> Object:
        """Write a patched object.

        Raises:
            ApiError: it is refused.
        """
        resource, meta = target.resource, patched.get("metadata") or {}
        if meta.get("name") != target.name:
            raise errors.bad_request("the name of the object does not match the name on the URL")
        if meta.get("uid") != before["metadata"]["uid"]:
            why = f'Invalid value: "{meta.get("uid", "")}": field is immutable'
            raise_if_invalid(resource, patched, [("FieldValueInvalid", "metadata.uid", why)])
        _check_version(resource, before, meta)
        return self._update(target, before, patched, dry_run)

    def _update(self, target: Target, before: Object, given: Object, dry_run: bool) -> Object:
        resource, status = target.resource, target.subresource == "status"
        after = defaults.apply_update(resource, before, given, status=status)
        self._check_schema(resource, after, before)
        if not status:
            validate_update(resource, before, after)
            changed = _without_metadata_and_status(before) != _without_metadata_and_status(after)
            if changed and "generation" in before["metadata"]:
                after["metadata"]["generation"] += 1
        if after == before:
            return before
        redefined = resource.kind == _DEFINITION and not status
        schemas = definitions.version_schemas(after) if redefined else {}
        if dry_run:
            return after
        if schemas:
            self.registry.undefine(before)
            self.registry.define(after, schemas)
        if (last := self.deleter.finish_deletion(resource, after)) is not None:
            return resource.from_storage(last)
        stored = self.store.put(resource.storage_key, resource.to_storage(after))
        self.deleter.garbage.on_updated(before, stored)
        return resource.from_storage(stored)

    def _check_schema(self, resource: Resource, obj: Object, before: Object | None) -> None:
        if resource.schema is not None:
            wrong = resource.schema.validate(obj, before)
            raise_if_invalid(resource, obj, [(e.type, e.field, e.message) for e in wrong])


def _check_version(resource: Resource, before: Object, meta: Object) -> None:
    version, name = meta.get("resourceVersion", ""), before["metadata"]["name"]
    if version and not version.isdigit():
        raise errors.invalid_version(version)
    if version and version != before["metadata"]["resourceVersion"]:
        raise errors.modified(resource.qualified_name, name)
    if meta.get("uid") and meta["uid"] != before["metadata"]["uid"]:
        raise conflict(resource.qualified_name, name, _OTHER_UID)


def _without_metadata_and_status(obj: Object) -> Object:
    """The part whose changes ``metadata.generation`` counts."""
    return {k: v for k, v in obj.items() if k not in ("metadata", "status")}
