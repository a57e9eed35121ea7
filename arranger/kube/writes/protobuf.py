"""One edit of an object in the API server's binary form: adding a finalizer.

The API server compares some fields byte for byte, and its JSON is not always what it was given: a
ResourceClaim whose driver parameters are JSON with spaces can be changed by no client that sends
JSON. Fields that are not known here are passed on as they came.

A message that occurs twice in the binary form counts as both together, so nothing needs to be read
of the object to add to it.
"""

from __future__ import annotations

from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import MAGIC, Wire, message_class, parse_unknown

#: Of an object and of ``ObjectMeta`` what is added.
_OBJECT: Final = message_class(metadata=(1, Wire.BYTES))
_METADATA: Final = message_class(finalizers=(14, Wire.BYTES_LIST))


def add_finalizer(body: bytes, finalizer: str) -> bytes:
    """The object with one more finalizer.

    Raises:
        ParseError: it is not in the binary form.
    """
    unknown = parse_unknown(body)
    if not unknown.raw:
        raise ParseError("nothing in the binary form")
    metadata = _METADATA(finalizers=[finalizer.encode()]).SerializeToString()
    unknown.raw += _OBJECT(metadata=metadata).SerializeToString()
    whole: bytes = unknown.SerializeToString()
    return MAGIC + whole
