"""From the bytes of a request to an object that fits the path it was sent to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from arranger.embedded import Object
from arranger.embedded.builtin import field_types
from arranger.embedded.builtin.validation import raise_if_invalid
from arranger.embedded.crd.schema import PrunedObject, WrongTypeError
from arranger.embedded.errors import ApiError, bad_request, invalid, unsupported_media_type
from arranger.embedded.registry import Resource
from arranger.embedded.routing import Target
from arranger.kube.client.transport import Request

Headers = dict[str, str]


def decode(body: bytes) -> Any:
    """The JSON value that was sent.

    Raises:
        ApiError: 400, it is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error


def decode_object(request: Request) -> Object:
    """The object that was sent.

    Raises:
        ApiError: 400, or 415 for another format than JSON.
    """
    media = request.content_type.split(";")[0].strip()
    if media not in ("application/json", ""):
        raise unsupported_media_type(media)
    obj = decode(request.body)
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return obj


def parse(
    resource: Resource, obj: Object, query: Mapping[str, str], *, patched: bool = False
) -> tuple[Object, Headers]:
    """The object that a client wants written, and the answer's warning headers.

    It is a copy as it would be decoded into its kind's type: nulls, unknown fields and empty maps
    of labels are left out. ``patched`` tells what a patch has made of an object.

    Raises:
        ApiError: 400, or 422 if patched, it does not fit its kind; 422, unknown
            ``fieldValidation``.
    """

    def refused(why: str) -> ApiError:
        if patched:
            return invalid("", "", "", [("FieldValueInvalid", "patch", f"Invalid value: {why}")])
        kind = resource.kind
        what = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
        return bad_request(f"{what}: {why}")

    try:
        pruned = _prune(resource, obj)
    except WrongTypeError as error:
        raise refused(str(error)) from error
    strict, headers = _field_validation(pruned.unknown, query)
    if strict:
        raise refused(strict)
    return pruned.obj, headers


def _prune(resource: Resource, obj: Object) -> PrunedObject:
    if resource.schema is None:
        pruned = field_types.prune(obj, resource.api_version, resource.kind)
    else:
        meta = obj.get("metadata")
        if not isinstance(meta, dict | None):
            raise WrongTypeError("json: cannot unmarshal metadata into an object")
        head = field_types.prune_metadata(meta or {})
        pruned = resource.schema.prune(obj)
        pruned.obj["metadata"] = head.obj
        pruned.unknown[:0] = head.unknown
    if isinstance(meta := pruned.obj.get("metadata"), dict):
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not meta.get(name, True):
                del meta[name]
    return pruned


def check_path(target: Target, obj: Object) -> None:
    """The object must be what its path says it is.

    Raises:
        ApiError: 400 or 422.
    """
    resource, meta = target.resource, obj.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise bad_request("json: cannot unmarshal metadata into an object")
    if resource.custom:
        if not obj.get("kind") or obj.get("apiVersion") != resource.api_version:
            raise bad_request("Object 'Kind' is missing, or the API version does not match")
        if obj["kind"] != resource.kind:
            why = f'Invalid value: "{obj["kind"]}": must be {resource.kind}'
            raise_if_invalid(resource, obj, [("FieldValueInvalid", "kind", why)])
    elif obj.get("kind", resource.kind) != resource.kind:
        why = f"{obj['kind']} in version {obj.get('apiVersion')!r} cannot be handled as a"
        raise bad_request(f"{why} {resource.kind}")
    elif (version := obj.get("apiVersion") or resource.api_version) != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if target.namespace and meta.get("namespace", target.namespace) != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.name and meta.get("name", target.name) != target.name:
        raise bad_request("the name of the object does not match the name on the URL")


def _field_validation(unknown: list[str], query: Mapping[str, str]) -> tuple[str, Headers]:
    """Why unknown fields are refused, "" where they are not, and the warnings about them."""
    texts = [f'unknown field "{path}"' for path in unknown]
    match asked := query.get("fieldValidation", ""):
        case "Strict":
            return (f"strict decoding error: {', '.join(texts)}" if texts else ""), {}
        case "Ignore":
            return "", {}
        case "Warn" | "":
            quoted = [text.replace('"', '\\"') for text in texts]
            return "", {"warning": ", ".join(f'299 - "{q}"' for q in quoted)} if texts else {}
        case _:
            supported = '"", "Ignore", "Strict", "Warn"'
            why = f'Unsupported value: "{asked}": supported values: {supported}'
            cause = ("FieldValueNotSupported", "fieldValidation", why)
            raise invalid("Options", "meta.k8s.io", "", [cause])
