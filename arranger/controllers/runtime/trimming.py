"""What controllers keep of objects: nothing of a tenant's that nobody reads.

What the scheduler's informers leave out is in :mod:`arranger.kube.watch.trimming`.
"""

from __future__ import annotations

from copy import copy
from hashlib import sha256
from typing import Any, Final

from arranger.api.parsing.objects import decode_object
from arranger.api.types.core import ObjectMeta
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.kube.watch.decoder import T
from arranger.kube.watch.trimming import KNOWN, pack, trim

#: Characters of an annotation that is kept as it is.
_LONGEST: Final = 1024


def identity_of(obj: T) -> T:
    """What an informer keeps to tell of a deletion that it has missed: whose object it was."""
    meta = obj.metadata
    owners = [owner for owner in meta.owner_references if owner.controller]
    kind: Any = type(obj)
    identity: T = kind(
        metadata=ObjectMeta(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, owner_references=owners
        )
    )
    return identity


def trimmed(obj: UnstructuredObject) -> UnstructuredObject:
    """The object without annotations and owners that nobody looks at; others keep the whole one."""
    own = UnstructuredObject(copy(obj.metadata), obj.api_version, obj.kind, obj.spec, obj.status)
    trim(own)
    return own


def trim_owned(obj: T) -> None:
    """Take out of an object of a job what its controller does not look at.

    Annotations that we know stay, long ones as a digest of theirs (:func:`shortened`): they are
    only compared.
    """
    meta = obj.metadata
    if meta.annotations:
        known = meta.annotations.items()
        meta.annotations = {key: shortened(text) for key, text in known if key in KNOWN}
    if len(meta.owner_references) > 1:
        meta.owner_references = [owner for owner in meta.owner_references if owner.controller]
    pack(obj)


def shortened(text: str) -> str:
    """The text of an annotation as it is kept of an object of a job."""
    if len(text) <= _LONGEST:
        return text
    return f"sha256:{sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def decode_owned_object(body: bytes, kind: type[T]) -> T:
    """An object of a job from an answer of the server, trimmed as informers do it.

    Raises:
        ParseError: it is none.
    """
    found = decode_object(body, kind)
    trim_owned(found)
    return found
