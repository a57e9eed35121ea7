"""What an ``Accept`` header asks for beside plain JSON."""

from __future__ import annotations

from typing import Final

_JSON: Final = ("application/json", "*/*", "application/*")


def prefers(accept: str, kind: str, group: str, version: str) -> bool:
    """Whether the client would rather have this kind than the objects themselves.

    The API server takes the first form that it can serve; plain JSON is the objects themselves.
    """
    wanted = {f"as={kind}", f"g={group}", f"v={version}"}
    for form in accept.split(","):
        media, *parameters = (part.strip() for part in form.split(";"))
        if media == "application/json" and wanted <= set(parameters):
            return True
        if media in _JSON and not any(p.startswith("as=") for p in parameters):
            return False
    return False
