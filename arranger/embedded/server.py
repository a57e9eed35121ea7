"""The embedded API server: one synchronous function from request to answer.

It does what kube-apiserver 1.36 does for the resources it serves, as held to by
``tests/api_conformance``; what it does not do is listed in ``docs/embedded.md``.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from arranger.embedded import discovery, pods
from arranger.embedded.deleting import Deleter
from arranger.embedded.errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    modified,
    not_found,
)
from arranger.embedded.evictions import evict
from arranger.embedded.lists import list_objects
from arranger.embedded.patches import PatchError, apply_patch
from arranger.embedded.resources import Registry, Resource
from arranger.embedded.routing import Target, route
from arranger.embedded.rules import GENERATIONAL, check_new, check_update, refuse_if
from arranger.embedded.store import Store
from arranger.embedded.tables import as_table, wants_table
from arranger.embedded.watching import Watch

Object = dict[str, Any]

_METHODS = {"collection": {"GET", "POST", "DELETE"}, "object": {"GET", "PUT", "PATCH", "DELETE"}}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrives."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer."""

    status: int
    body: Object | str
    headers: dict[str, str] = field(default_factory=dict)


class EmbeddedCluster:
    """A cluster's API, in memory.

    Args:
        now: the calendar clock; pass a virtual one in simulations.
        rng: makes uids and generated names; seed it to replay.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        self._now = now
        self._rng = rng or random.Random()
        self.store = Store()
        self.registry = Registry()
        self._deleter = Deleter(
            self.store,
            stamp=lambda grace: self._stamp(grace),
            resource_of=self._resource_of,
            removed=self._removed,
        )
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    # --- requests --------------------------------------------------------------------------

    def handle(self, request: Request) -> Answer:
        """Answer one request that is not a watch."""
        try:
            found = discovery.answer(self.registry, request.path)
            if found is not None and request.method == "GET":
                return Answer(200, found)
            return self._dispatch(request, route(self.registry, request.path))
        except ApiError as error:
            return Answer(error.code, error.status(), error.headers)

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        """Open a watch of a collection.

        Raises:
            ApiError: the path or the query makes no sense.
        """
        target = route(self.registry, path)
        return Watch(self.store, target.resource, target.namespace, query)

    # --- for those in the same process -----------------------------------------------------

    def create(self, manifest: Object) -> Object:
        """Create an object from a manifest, in the namespace it names or ``default``.

        Raises:
            ApiError: as the request would be refused.
        """
        resource = self.registry.by_kind(manifest.get("apiVersion", ""), manifest.get("kind", ""))
        if resource is None:
            what = f"{manifest.get('kind')} of {manifest.get('apiVersion')}"
            raise ApiError(404, "NotFound", f"no resource serves {what}")
        meta = manifest.get("metadata") or {}
        namespace = (meta.get("namespace") or "default") if resource.namespaced else ""
        return self._create(Target(resource, namespace), manifest, dry=False)

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """All objects of a resource; not to be changed.

        Raises:
            KeyError: it is not served.
        """
        return self.store.items(self.registry.named(plural, group).key)

    # --- dispatch --------------------------------------------------------------------------

    def _dispatch(self, request: Request, target: Target) -> Answer:
        place = "object" if target.name else "collection"
        posts = target.subresource in ("binding", "eviction")
        if request.method not in ({"POST"} if posts else _METHODS[place]):
            why = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", why)
        dry = "All" in request.query.get("dryRun", "")
        if posts:
            return self._post_to_pod(request, target, dry)
        match request.method:
            case "POST":
                created = self._create(target, self._read(request, target), dry)
                return Answer(201, created)
            case "PUT":
                return self._put(request, target, dry)
            case "PATCH":
                return Answer(200, self._patch(request, target, dry))
            case "DELETE":
                return self._delete(request, target, dry)
            case _:
                return self._get(request, target)

    def _get(self, request: Request, target: Target) -> Answer:
        if target.name:
            found: Object = self._existing(target)
        else:
            found = list_objects(self.store, target.resource, target.namespace, request.query)
        if wants_table(request.accept):
            include = request.query.get("includeObject", "Metadata")
            return Answer(200, as_table(target.resource, found, now=self._now(), include=include))
        if not target.name and not target.resource.custom:
            bare = [
                {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
                for item in found["items"]
            ]
            found = {**found, "items": bare}
        return Answer(200, found)

    def _existing(self, target: Target) -> Object:
        obj = self.store.get(target.resource.key, (target.namespace, target.name))
        if obj is None:
            raise not_found(target.resource.qualified, target.name)
        return obj

    # --- creating --------------------------------------------------------------------------

    def _create(self, target: Target, given: Object, dry: bool) -> Object:
        resource = target.resource
        obj = _tidy(deepcopy(given))
        meta = obj.setdefault("metadata", {})
        self._fit_path(target, obj)
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            letters = "bcdfghjklmnpqrstvwxz2456789"
            meta["name"] = meta["generateName"] + "".join(self._rng.choices(letters, k=5))
        if target.namespace:
            meta["namespace"] = target.namespace
            if self.store.get("/namespaces", ("", target.namespace)) is None:
                raise not_found("namespaces", target.namespace)
        self._defaults(resource, obj)
        meta = obj["metadata"]
        check_new(resource, obj)
        if self.store.get(resource.key, (target.namespace, meta["name"])) is not None:
            raise _named(already_exists(resource.qualified, meta["name"]), resource)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(name, None)
        meta["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        meta["creationTimestamp"] = self._stamp(0)
        if resource.kind in GENERATIONAL or resource.custom:
            meta["generation"] = 1
        if dry:
            return obj
        stored = self.store.put(resource.key, obj)
        if resource.kind == "CustomResourceDefinition":
            return self._define(stored)
        self._deleter.collect_orphan(resource, stored)
        return stored

    def _defaults(self, resource: Resource, obj: Object) -> None:
        obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
        if resource.key == "/pods":
            of_all = self.store.items("scheduling.k8s.io/priorityclasses")
            fallback = next((c for c in of_all if c.get("globalDefault")), None)
            pods.set_defaults(
                obj,
                lambda name: self.store.get("scheduling.k8s.io/priorityclasses", ("", name)),
                fallback,
            )
            if obj["spec"].get("schedulingGates"):
                obj["status"]["conditions"] = [pods.gated_condition(self._stamp(0))]
        elif resource.kind == "Namespace":
            labels = obj["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")
            obj["status"] = {"phase": "Active"}
        elif resource.kind == "Node":
            obj.setdefault("spec", {})
            status = obj.setdefault("status", {})
            if "capacity" in status:
                status.setdefault("allocatable", dict(status["capacity"]))
        elif resource.schema is not None:
            self._shape(resource, obj)
            if resource.status:
                obj.pop("status", None)

    def _shape(self, resource: Resource, obj: Object, old: Object | None = None) -> None:
        """Prune, default and check a custom resource, in place."""
        assert resource.schema is not None
        shaped = resource.schema.default(resource.schema.prune(obj))
        obj.clear()
        obj.update(shaped)
        wrong = resource.schema.validate(obj, old)
        refuse_if(resource, obj, [(e.type, e.field, e.message) for e in wrong])

    def _define(self, definition: Object) -> Object:
        try:
            self.registry.define(definition)
        except ValueError as error:
            self.store.remove(
                "apiextensions.k8s.io/customresourcedefinitions",
                ("", definition["metadata"]["name"]),
            )
            raise bad_request(str(error)) from error
        names = definition["spec"]["names"]
        self.store.begin(f"{definition['spec']['group']}/{names['plural']}")
        conditions = [
            {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": self._stamp(0)}
            for kind, reason in (
                ("NamesAccepted", "NoConflicts"),
                ("Established", "InitialNamesAccepted"),
            )
        ]
        stored = [v["name"] for v in definition["spec"]["versions"] if v.get("storage")]
        status = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}
        key = "apiextensions.k8s.io/customresourcedefinitions"
        return self.store.put(key, {**deepcopy(definition), "status": status})

    # --- changing --------------------------------------------------------------------------

    def _put(self, request: Request, target: Target, dry: bool) -> Answer:
        resource = target.resource
        given = _tidy(self._read(request, target))
        self._fit_path(target, given)
        before = self.store.get(resource.key, (target.namespace, target.name))
        if before is None:
            if resource.kind == "Lease":
                return Answer(201, self._create(target, given, dry))
            raise not_found(resource.qualified, target.name)
        version = given["metadata"].get("resourceVersion", "")
        if not version and (resource.custom or resource.kind == "Lease"):
            why = "Invalid value: 0: must be specified for an update"
            refuse_if(resource, given, [("FieldValueInvalid", "metadata.resourceVersion", why)])
        self._check_version(resource, before, given["metadata"])
        return Answer(200, self._update(target, before, given, dry))

    def _patch(self, request: Request, target: Target, dry: bool) -> Object:
        resource = target.resource
        media = request.content_type.split(";")[0].strip()
        patch = _decode(request.body)
        before = self._existing(target)
        try:
            after = apply_patch(before, patch, media, group=resource.group)
        except PatchError as error:
            raise ApiError(error.status, error.reason, error.message) from error
        after = _tidy(after)
        meta = after.get("metadata") or {}
        if meta.get("name") != target.name:
            raise bad_request("the name of the object does not match the name on the URL")
        if meta.get("uid") != before["metadata"]["uid"]:
            why = f'Invalid value: "{meta.get("uid", "")}": field is immutable'
            refuse_if(resource, after, [("FieldValueInvalid", "metadata.uid", why)])
        self._check_version(resource, before, meta)
        return self._update(target, before, after, dry)

    def _check_version(self, resource: Resource, before: Object, meta: Object) -> None:
        version = meta.get("resourceVersion", "")
        if version and not version.isdigit():
            raise ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        name = before["metadata"]["name"]
        if version and version != before["metadata"]["resourceVersion"]:
            raise modified(resource.qualified, name)
        if meta.get("uid") and meta["uid"] != before["metadata"]["uid"]:
            why = "Precondition failed: UID in precondition does not match"
            raise conflict(resource.qualified, name, why)

    def _update(self, target: Target, before: Object, given: Object, dry: bool) -> Object:
        resource = target.resource
        after = self._merged(target, before, deepcopy(given))
        if target.subresource != "status":
            if resource.schema is not None:
                self._shape(resource, after, before)
            check_update(resource, before, after)
            if resource.key == "/pods" and not after["spec"].get("schedulingGates"):
                after["spec"].pop("schedulingGates", None)
            changed = {k: v for k, v in after.items() if k not in ("metadata", "status")}
            same = {k: v for k, v in before.items() if k not in ("metadata", "status")}
            if "generation" in before["metadata"] and changed != same:
                after["metadata"]["generation"] += 1
        if after == before or dry:
            return before if not dry else after
        meta = after["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            finished = resource.key != "/pods" or not meta.get("deletionGracePeriodSeconds")
            if finished:
                return self._deleter.remove(resource, after)
        stored = self.store.put(resource.key, after)
        if resource.kind == "CustomResourceDefinition" and target.subresource != "status":
            self.registry.define(stored)
        return stored

    def _merged(self, target: Target, before: Object, given: Object) -> Object:
        """What of ``given`` counts: the status only, or all but the status."""
        resource = target.resource
        of_server = "uid creationTimestamp generation deletionTimestamp deletionGracePeriodSeconds"
        kept = (*of_server.split(), "namespace", "name", "resourceVersion", "generateName")
        if target.subresource == "status":
            after = deepcopy(before)
            after.pop("status", None)
            if "status" in given:
                after["status"] = given["status"]
            if resource.key == "/pods":
                after.setdefault("status", {}).setdefault("qosClass", before["status"]["qosClass"])
            return after
        after = given
        after["kind"], after["apiVersion"] = resource.kind, resource.api_version
        meta = after.setdefault("metadata", {})
        for name in kept:
            meta.pop(name, None)
            if name in before["metadata"]:
                meta[name] = before["metadata"][name]
        if resource.status:
            after.pop("status", None)
            if "status" in before:
                after["status"] = deepcopy(before["status"])
        if resource.key == "/pods":
            self._keep_pod_defaults(before, after)
        elif resource.kind == "Namespace":
            labels = meta.setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = target.name
        return after

    def _keep_pod_defaults(self, before: Object, after: Object) -> None:
        """Default a pod as at its creation, so that a bare replacement compares equal."""
        status = after["status"]
        spec = after.setdefault("spec", {})
        spec.setdefault("priority", before["spec"].get("priority", 0))
        if not isinstance(spec["priority"], int):
            refuse: list[tuple[str, str, str]] = [
                ("FieldValueInvalid", "spec.priority", "Invalid value: not an integer")
            ]
            refuse_if(self.registry.named("pods"), after, refuse)
        if spec["priority"] == before["spec"].get("priority"):
            spec.setdefault("preemptionPolicy", before["spec"].get("preemptionPolicy"))
            pods.set_defaults(after, lambda _: {"value": spec["priority"]}, None)
        after["status"] = status

    # --- deleting --------------------------------------------------------------------------

    def _delete(self, request: Request, target: Target, dry: bool) -> Answer:
        options = _decode(request.body) if request.body else {}
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"no kind {options['kind']!r} is registered for deletion options")
        if "gracePeriodSeconds" in request.query:
            options = {**options, "gracePeriodSeconds": int(request.query["gracePeriodSeconds"])}
        dry = dry or "All" in (options.get("dryRun") or ())
        resource = target.resource
        if not target.name:
            listed = list_objects(self.store, resource, target.namespace, request.query)
            if not dry:
                listed["items"] = [
                    self._deleter.delete(resource, obj, options)[0] for obj in listed["items"]
                ]
            return Answer(200, listed)
        obj = self._existing(target)
        if dry:
            return Answer(200, obj)
        last, gone = self._deleter.delete(resource, obj, options)
        if resource.kind == "Namespace":
            return Answer(200, {**last, "status": {"phase": "Terminating"}})
        if gone and resource.key != "/pods":
            return Answer(200, _success(resource, last))
        return Answer(200, last)

    def _removed(self, resource: Resource, last: Object) -> None:
        if resource.kind == "CustomResourceDefinition":
            self.registry.undefine(last)
        elif resource.kind == "Namespace":
            for name in self.store.resources():
                for obj in self.store.items(name, last["metadata"]["name"]):
                    self._deleter.delete(self._resource_of(name), obj, {"gracePeriodSeconds": 0})

    # --- pods ------------------------------------------------------------------------------

    def _post_to_pod(self, request: Request, target: Target, dry: bool) -> Answer:
        body = _decode(request.body)
        name = target.name or (body.get("metadata") or {}).get("name", "")
        key = (target.namespace, name)
        pod = self.store.get("/pods", key)
        if target.subresource == "eviction":
            budgets = self.store.items("policy/poddisruptionbudgets", target.namespace)
            options, spent = evict(pod, name, body, budgets, self._stamp(0))
            assert pod is not None
            if not dry and "All" not in (options.get("dryRun") or ()):
                if spent is not None:
                    self.store.put("policy/poddisruptionbudgets", spent)
                self._deleter.delete(self.registry.named("pods"), pod, options)
        else:
            bound = pods.bind(pod, name, body, self._stamp(0))
            if not dry:
                self.store.put("/pods", bound)
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(201, {**success, "code": 201})

    # --- helpers ---------------------------------------------------------------------------

    def _read(self, request: Request, target: Target) -> Object:
        media = request.content_type.split(";")[0].strip()
        if media not in ("application/json", ""):
            why = f"the body of the request was in an unknown format - {media}"
            raise ApiError(415, "UnsupportedMediaType", why)
        body = _decode(request.body)
        for part in ("metadata", "spec", "status"):
            if not isinstance(body.get(part, {}), dict | None):
                raise bad_request(f"json: cannot unmarshal {part} into an object")
        return body

    def _fit_path(self, target: Target, obj: Object) -> None:
        """The object must be what its path says it is."""
        resource, meta = target.resource, obj.setdefault("metadata", {})
        if resource.custom:
            if not obj.get("kind") or obj.get("apiVersion") != resource.api_version:
                raise bad_request("Object 'Kind' is missing, or the API version does not match")
            if obj["kind"] != resource.kind:
                why = f'Invalid value: "{obj["kind"]}": must be {resource.kind}'
                refuse_if(resource, obj, [("FieldValueInvalid", "kind", why)])
        elif obj.get("kind", resource.kind) != resource.kind:
            raise bad_request(
                f"{obj['kind']} in version {obj.get('apiVersion')!r} cannot be handled as a "
                f"{resource.kind}"
            )
        if target.namespace and meta.get("namespace", target.namespace) != target.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        if target.name and meta.get("name", target.name) != target.name:
            raise bad_request("the name of the object does not match the name on the URL")

    def _resource_of(self, key: str) -> Resource:
        group, _, plural = key.partition("/")
        return self.registry.named(plural, group)

    def _stamp(self, seconds: int) -> str:
        at = self._now() + timedelta(seconds=seconds)
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decode(body: bytes) -> Object:
    try:
        decoded: Object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error
    return decoded


def _tidy(obj: Object) -> Object:
    """As after Go has decoded it: what is null, or an empty map of labels, is not there."""
    tidy: Object = _without_nulls(obj)
    if isinstance(meta := tidy.get("metadata"), dict):
        for field_name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not meta.get(field_name, True):
                del meta[field_name]
    return tidy


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _named(error: ApiError, resource: Resource) -> ApiError:
    if error.details is not None and resource.group:
        error.details = {**error.details, "group": resource.group, "kind": resource.plural}
    return error


def _success(resource: Resource, last: Object) -> Object:
    meta = last["metadata"]
    details = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


__all__ = ["Answer", "EmbeddedCluster", "Request"]
