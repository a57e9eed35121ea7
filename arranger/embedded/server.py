"""The embedded API server: one synchronous function from request to answer.

It does what kube-apiserver 1.36 does for the resources it serves, as held to by
``tests/api_conformance``; what it does not do is listed in ``docs/guide/embedded.md``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.builtin import pods
from arranger.embedded.errors import ApiError, bad_request, not_found
from arranger.embedded.handlers import bodies
from arranger.embedded.handlers.delete import Deleter, evict
from arranger.embedded.handlers.list import list_objects
from arranger.embedded.handlers.patch import APPLY_MEDIA_TYPE, apply_patch
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.handlers.write import ObjectWriter
from arranger.embedded.kubectl import discovery
from arranger.embedded.kubectl.tables import TablePrinter, wants_table
from arranger.embedded.registry import Registry, Resource
from arranger.embedded.routing import Target, route
from arranger.embedded.storage.store import Store
from arranger.kube.client.transport import Request

_METHODS: Final = {
    "collection": {"GET", "POST", "DELETE"},
    "object": {"GET", "PUT", "PATCH", "DELETE"},
}
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """One complete answer; the names of its headers are in lower case."""

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
        self.store = Store()
        self.registry = Registry()
        self._deleter = Deleter(
            self.store, self._timestamp, resource_of=self._resource_of, on_removed=self._on_removed
        )
        self._writer = ObjectWriter(
            self.store, self.registry, self._deleter, self._timestamp, rng or random.Random()
        )
        namespaces = Target(self.registry.by_name("namespaces"))
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self._writer.create(namespaces, {"metadata": {"name": name}}, dry_run=False)

    # --- requests --------------------------------------------------------------------------

    def handle(self, request: Request) -> ApiResponse:
        """Answer one request that is not a watch."""
        try:
            if request.method == "GET" and (
                found := discovery.respond(self.registry, request.path, request.accept)
            ):
                body, media = found
                return ApiResponse(200, body, {"content-type": media} if media else {})
            return self._dispatch(request, route(self.registry, request.path))
        except ApiError as error:
            return ApiResponse(error.code, error.status(), error.headers)

    def watch(self, path: str, query: Mapping[str, str], accept: str = "application/json") -> Watch:
        """Open a watch of a collection, whose events have tables where ``accept`` says so.

        Raises:
            ApiError: the path is not served, or the query is invalid.
        """
        target = route(self.registry, path)
        resource = target.resource
        show: Callable[[Object], Object] | None = resource.from_storage if resource.view else None
        if wants_table(accept):
            show = TablePrinter(resource, self._now, query).event_table
        return Watch(self.store, resource, target.namespace, query, render=show)

    # --- without a request -----------------------------------------------------

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
        given, _ = bodies.parse(resource, manifest, {})
        return self._writer.create(Target(resource, namespace), given, dry_run=False)

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """All objects of a resource; not to be changed.

        Raises:
            KeyError: it is not served.
        """
        resource = self.registry.by_name(plural, group)
        return [resource.from_storage(obj) for obj in self.store.items(resource.storage_key)]

    # --- dispatch --------------------------------------------------------------------------

    def _dispatch(self, request: Request, target: Target) -> ApiResponse:
        scope = "object" if target.name else "collection"
        posts = target.subresource in ("binding", "eviction")
        if request.method not in ({"POST"} if posts else _METHODS[scope]):
            why = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", why)
        match request.method:
            case "POST" if target.subresource == "eviction":
                return self._evict(request, target)
            case "POST" if target.subresource == "binding":
                return self._bind(request, target)
            case "POST":
                return self._create(request, target, bodies.decode_object(request))
            case "PUT":
                given, headers = _parse(request, target, bodies.decode_object(request))
                after, new = self._writer.replace(target, given, dry_run=_is_dry_run(request))
                return ApiResponse(201 if new else 200, after, headers)
            case "PATCH":
                return self._patch(request, target)
            case "DELETE":
                return self._delete(request, target)
            case _:
                return self._get(request, target)

    def _create(self, request: Request, target: Target, obj: Object) -> ApiResponse:
        given, headers = _parse(request, target, obj)
        made = self._writer.create(target, given, dry_run=_is_dry_run(request))
        return ApiResponse(201, made, headers)

    def _stored(self, target: Target) -> Object | None:
        return self.store.get(target.resource.storage_key, (target.namespace, target.name))

    def _get_stored(self, target: Target) -> Object:
        obj = self._stored(target)
        if obj is None:
            raise not_found(target.resource.qualified_name, target.name)
        return obj

    def _get(self, request: Request, target: Target) -> ApiResponse:
        resource = target.resource
        if target.name:
            found = resource.from_storage(self._get_stored(target))
        else:
            found = self._list(request, target)
            found["items"] = [resource.from_storage(obj) for obj in found["items"]]
        if wants_table(request.accept):
            printer = TablePrinter(resource, self._now, request.query)
            return ApiResponse(200, printer.table_of(found))
        if not target.name and not resource.custom:
            found["items"] = [
                {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
                for item in found["items"]
            ]
        return ApiResponse(200, found)

    def _list(self, request: Request, target: Target) -> Object:
        return list_objects(self.store, target.resource, target.namespace, request.query)

    def _patch(self, request: Request, target: Target) -> ApiResponse:
        media = request.content_type.split(";")[0].strip()
        patch = bodies.decode(request.body)
        if media == APPLY_MEDIA_TYPE and self._stored(target) is None:
            return self._create(request, target, patch)
        before = target.resource.from_storage(self._get_stored(target))
        patched = apply_patch(before, patch, media, group=target.resource.group)
        given, headers = bodies.parse(target.resource, patched, request.query, patched=True)
        after = self._writer.patch(target, before, given, dry_run=_is_dry_run(request))
        return ApiResponse(200, after, headers)

    def _delete(self, request: Request, target: Target) -> ApiResponse:
        options = bodies.decode(request.body) if request.body else {}
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"no kind {options['kind']!r} is registered for deletion options")
        if "gracePeriodSeconds" in request.query:
            options = {**options, "gracePeriodSeconds": int(request.query["gracePeriodSeconds"])}
        dry = _is_dry_run(request) or "All" in (options.get("dryRun") or ())
        resource = target.resource
        if not target.name:
            listed = self._list(request, target)
            if not dry:
                listed["items"] = [
                    self._deleter.delete(resource, obj, options)[0] for obj in listed["items"]
                ]
            listed["items"] = [resource.from_storage(obj) for obj in listed["items"]]
            return ApiResponse(200, listed)
        obj = self._get_stored(target)
        if dry:
            return ApiResponse(200, resource.from_storage(obj))
        last, gone = self._deleter.delete(resource, obj, options)
        if resource.kind == "Namespace":
            return ApiResponse(200, {**last, "status": {"phase": "Terminating"}})
        if gone and resource.storage_key != "/pods":
            return ApiResponse(200, _deletion_status(resource, last))
        return ApiResponse(200, resource.from_storage(last))

    # --- pods ------------------------------------------------------------------------------

    def _bind(self, request: Request, target: Target) -> ApiResponse:
        body = bodies.decode(request.body)
        name, pod = self._target_pod(target, body)
        bound = pods.bind(pod, name, body, self._timestamp(0))
        if not _is_dry_run(request):
            self.store.put("/pods", bound)
        return ApiResponse(201, {**_SUCCESS, "code": 201})

    def _evict(self, request: Request, target: Target) -> ApiResponse:
        body = bodies.decode(request.body)
        name, pod = self._target_pod(target, body)
        budgets = self.store.items("policy/poddisruptionbudgets", target.namespace)
        options, spent = evict(pod, name, body, budgets, self._timestamp(0))
        assert pod is not None
        if not _is_dry_run(request) and "All" not in (options.get("dryRun") or ()):
            if spent is not None:
                self.store.put("policy/poddisruptionbudgets", spent)
            self._deleter.delete(target.resource, pod, options)
        return ApiResponse(201, {**_SUCCESS, "code": 201})

    def _target_pod(self, target: Target, body: Object) -> tuple[str, Object | None]:
        """Name of the pod that something is posted to, and the pod."""
        name = target.name or (body.get("metadata") or {}).get("name", "")
        return name, self.store.get("/pods", (target.namespace, name))

    # --- helpers ---------------------------------------------------------------------------

    def _on_removed(self, resource: Resource, last: Object) -> None:
        if resource.kind == "CustomResourceDefinition":
            self.registry.undefine(last)
        elif resource.kind == "Namespace":
            for name in self.store.resources():
                for obj in self.store.items(name, last["metadata"]["name"]):
                    self._deleter.delete(self._resource_of(name), obj, {"gracePeriodSeconds": 0})

    def _resource_of(self, key: str) -> Resource:
        group, _, plural = key.partition("/")
        return self.registry.by_name(plural, group)

    def _timestamp(self, seconds: int) -> str:
        return second_time(self._now() + timedelta(seconds=seconds))


def _parse(request: Request, target: Target, obj: Object) -> tuple[Object, bodies.Headers]:
    bodies.check_path(target, obj)
    return bodies.parse(target.resource, obj, request.query)


def _deletion_status(resource: Resource, last: Object) -> Object:
    meta = last["metadata"]
    details = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    group = {"group": resource.group} if resource.group else {}
    return {**_SUCCESS, "details": {**details, **group}}


def _is_dry_run(request: Request) -> bool:
    """Whether nothing is to be written."""
    return "All" in request.query.get("dryRun", "")
