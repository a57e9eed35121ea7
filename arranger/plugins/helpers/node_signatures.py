"""Parts of a pod's spec as keys, for what depends on them and on nodes alone."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from arranger.api.types.packed import unpacked

#: Bytes of a longest key: what is larger is worked out each time.
_MAX_BYTES: Final = 4096

_encode: Final = msgspec.json.Encoder(enc_hook=unpacked).encode


def signature_of(part: Any) -> bytes | None:
    """Equal for equal parts; None where it would be too large to be kept."""
    encoded = _encode(part)
    return encoded if len(encoded) <= _MAX_BYTES else None
