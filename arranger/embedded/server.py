"""The embedded API server: one synchronous function from request to answer.

It does what kube-apiserver 1.36 does for the resources it serves, as held to by
``tests/api_conformance``; what it does not do is listed in ``docs/embedded.md``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from arranger.embedded.builtin import pods
from arranger.embedded.errors import ApiError, bad_request, not_found
from arranger.embedded.handlers import bodies
from arranger.embedded.handlers.delete import Deleter
from arranger.embedded.handlers.eviction import evict
from arranger.embedded.handlers.list import list_objects
from arranger.embedded.handlers.patch import APPLY, PatchError, apply_patch
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.handlers.write import Writer
from arranger.embedded.kubectl import discovery
from arranger.embedded.kubectl.tables import Tables, wants_table
from arranger.embedded.registry import Registry, Resource
from arranger.embedded.routing import Target, route
from arranger.embedded.storage.store import Store

Object = dict[str, Any]

_METHODS: Final = {
    "collection": {"GET", "POST", "DELETE"},
    "object": {"GET", "PUT", "PATCH", "DELETE"},
}
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrives."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def dry(self) -> bool:
        """Whether nothing is to be written."""
        return "All" in self.query.get("dryRun", "")


@dataclass(frozen=True, slots=True)
class Answer:
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
            self.store, stamp=self._stamp, resource_of=self._resource_of, removed=self._removed
        )
        self._writer = Writer(
            self.store,
            self.registry,
            self._deleter,
            stamp=self._stamp,
            rng=rng or random.Random(),
        )
        namespaces = Target(self.registry.named("namespaces"))
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self._writer.create(namespaces, {"metadata": {"name": name}}, dry=False)

    # --- requests --------------------------------------------------------------------------

    def handle(self, request: Request) -> Answer:
        """Answer one request that is not a watch."""
        try:
            if request.method == "GET" and (
                found := discovery.answer(self.registry, request.path, request.accept)
            ):
                body, media = found
                return Answer(200, body, {"content-type": media} if media else {})
            return self._dispatch(request, route(self.registry, request.path))
        except ApiError as error:
            return Answer(error.code, error.status(), error.headers)

    def watch(self, path: str, query: Mapping[str, str], accept: str = "application/json") -> Watch:
        """Open a watch of a collection, whose events have tables where ``accept`` says so.

        Raises:
            ApiError: the path or the query makes no sense.
        """
        target = route(self.registry, path)
        resource = target.resource
        show: Callable[[Object], Object] | None = resource.shown if resource.view else None
        if wants_table(accept):
            show = Tables(resource, self._now, query).of_stored
        return Watch(self.store, resource, target.namespace, query, show=show)

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
        given, _ = bodies.take(resource, manifest, {})
        return self._writer.create(Target(resource, namespace), given, dry=False)

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """All objects of a resource; not to be changed.

        Raises:
            KeyError: it is not served.
        """
        resource = self.registry.named(plural, group)
        return [resource.shown(obj) for obj in self.store.items(resource.key)]

    # --- dispatch --------------------------------------------------------------------------

    def _dispatch(self, request: Request, target: Target) -> Answer:
        place = "object" if target.name else "collection"
        posts = target.subresource in ("binding", "eviction")
        if request.method not in ({"POST"} if posts else _METHODS[place]):
            why = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", why)
        match request.method:
            case "POST" if target.subresource == "eviction":
                return self._evict(request, target)
            case "POST" if target.subresource == "binding":
                return self._bind(request, target)
            case "POST":
                given, headers = self._given(request, target)
                made = self._writer.create(target, given, dry=request.dry)
                return Answer(201, made, headers)
            case "PUT":
                given, headers = self._given(request, target)
                after, new = self._writer.replace(target, given, dry=request.dry)
                return Answer(201 if new else 200, after, headers)
            case "PATCH":
                return self._patch(request, target)
            case "DELETE":
                return self._delete(request, target)
            case _:
                return self._get(request, target)

    def _given(self, request: Request, target: Target) -> tuple[Object, dict[str, str]]:
        given = bodies.read(request.body, request.content_type)
        bodies.fit_path(target, given)
        return bodies.take(target.resource, given, request.query)

    def _found(self, target: Target) -> Object | None:
        return self.store.get(target.resource.key, (target.namespace, target.name))

    def _existing(self, target: Target) -> Object:
        obj = self._found(target)
        if obj is None:
            raise not_found(target.resource.qualified, target.name)
        return obj

    def _get(self, request: Request, target: Target) -> Answer:
        resource = target.resource
        if target.name:
            found = resource.shown(self._existing(target))
        else:
            found = self._list(request, target)
            found["items"] = [resource.shown(obj) for obj in found["items"]]
        if wants_table(request.accept):
            return Answer(200, Tables(resource, self._now, request.query).of(found))
        if not target.name and not resource.custom:
            found["items"] = [
                {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
                for item in found["items"]
            ]
        return Answer(200, found)

    def _list(self, request: Request, target: Target) -> Object:
        return list_objects(self.store, target.resource, target.namespace, request.query)

    def _patch(self, request: Request, target: Target) -> Answer:
        media = request.content_type.split(";")[0].strip()
        patch = bodies.decode(request.body)
        if media == APPLY and self._found(target) is None:
            return self._create_applied(request, target, patch)
        before = target.resource.shown(self._existing(target))
        try:
            patched = apply_patch(before, patch, media, group=target.resource.group)
        except PatchError as error:
            raise ApiError(error.status, error.reason, error.message) from error
        given, headers = bodies.take_patched(target.resource, patched, request.query)
        return Answer(200, self._writer.patch(target, before, given, dry=request.dry), headers)

    def _create_applied(self, request: Request, target: Target, given: Object) -> Answer:
        bodies.fit_path(target, given)
        given, headers = bodies.take(target.resource, given, request.query)
        return Answer(201, self._writer.create(target, given, dry=request.dry), headers)

    def _delete(self, request: Request, target: Target) -> Answer:
        options = bodies.decode(request.body) if request.body else {}
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"no kind {options['kind']!r} is registered for deletion options")
        if "gracePeriodSeconds" in request.query:
            options = {**options, "gracePeriodSeconds": int(request.query["gracePeriodSeconds"])}
        dry = request.dry or "All" in (options.get("dryRun") or ())
        resource = target.resource
        if not target.name:
            listed = self._list(request, target)
            if not dry:
                listed["items"] = [
                    self._deleter.delete(resource, obj, options)[0] for obj in listed["items"]
                ]
            listed["items"] = [resource.shown(obj) for obj in listed["items"]]
            return Answer(200, listed)
        obj = self._existing(target)
        if dry:
            return Answer(200, resource.shown(obj))
        last, gone = self._deleter.delete(resource, obj, options)
        if resource.kind == "Namespace":
            return Answer(200, {**last, "status": {"phase": "Terminating"}})
        if gone and resource.key != "/pods":
            return Answer(200, _success(resource, last))
        return Answer(200, resource.shown(last))

    # --- pods ------------------------------------------------------------------------------

    def _bind(self, request: Request, target: Target) -> Answer:
        body = bodies.decode(request.body)
        name, pod = self._posted_to(target, body)
        bound = pods.bind(pod, name, body, self._stamp(0))
        if not request.dry:
            self.store.put("/pods", bound)
        return Answer(201, {**_SUCCESS, "code": 201})

    def _evict(self, request: Request, target: Target) -> Answer:
        body = bodies.decode(request.body)
        name, pod = self._posted_to(target, body)
        budgets = self.store.items("policy/poddisruptionbudgets", target.namespace)
        options, spent = evict(pod, name, body, budgets, self._stamp(0))
        assert pod is not None
        if not request.dry and "All" not in (options.get("dryRun") or ()):
            if spent is not None:
                self.store.put("policy/poddisruptionbudgets", spent)
            self._deleter.delete(target.resource, pod, options)
        return Answer(201, {**_SUCCESS, "code": 201})

    def _posted_to(self, target: Target, body: Object) -> tuple[str, Object | None]:
        """Name of the pod that something is posted to, and the pod."""
        name = target.name or (body.get("metadata") or {}).get("name", "")
        return name, self.store.get("/pods", (target.namespace, name))

    # --- helpers ---------------------------------------------------------------------------

    def _removed(self, resource: Resource, last: Object) -> None:
        if resource.kind == "CustomResourceDefinition":
            self.registry.undefine(last)
        elif resource.kind == "Namespace":
            for name in self.store.resources():
                for obj in self.store.items(name, last["metadata"]["name"]):
                    self._deleter.delete(self._resource_of(name), obj, {"gracePeriodSeconds": 0})

    def _resource_of(self, key: str) -> Resource:
        group, _, plural = key.partition("/")
        return self.registry.named(plural, group)

    def _stamp(self, seconds: int) -> str:
        at = self._now() + timedelta(seconds=seconds)
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _success(resource: Resource, last: Object) -> Object:
    meta = last["metadata"]
    details = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {**_SUCCESS, "details": details}


__all__ = ["Answer", "EmbeddedCluster", "Request"]
