"""Decoding what is large away from the event loop.

An object of 1.5 MB, which any tenant can write, holds hundreds of thousands of parts; reading them
takes up to half a second. Small ones are decoded at once.
"""

from __future__ import annotations

import asyncio

from arranger.kube.watch.decoder import (
    MAX_AT_ONCE,
    Decoder,
    ListMeta,
    RawWatchEvent,
    T,
    UndecodableObject,
    WatchEvent,
)


async def decode_event(
    decoder: Decoder[T], frame: bytes
) -> WatchEvent[T] | RawWatchEvent | UndecodableObject:
    """One frame of a watch, during which others go on if it is large."""
    if len(frame) > MAX_AT_ONCE:
        return await asyncio.to_thread(decoder.decode_event, frame)
    return decoder.decode_event(frame)


async def decode_page(
    decoder: Decoder[T], body: bytes
) -> tuple[ListMeta, list[T], list[UndecodableObject]]:
    """One page of a list, during which others go on if it is large.

    Raises:
        ParseError: it is none.
    """
    if len(body) > MAX_AT_ONCE:
        return await asyncio.to_thread(decoder.decode_page, body)
    return decoder.decode_page(body)
