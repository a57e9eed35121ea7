#!/usr/bin/env python3
"""Names our image by digest in a kustomization, or checks that every image has one.

pin_images.py FOLDER IMAGE:TAG DIGEST     writes FOLDER/kustomization.yaml
pin_images.py --check FILE                fails for any image without a digest
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGES = re.compile(r"^images:\n(?:  .*\n?)+", re.MULTILINE)
_IMAGE = re.compile(r"^\s*(?:- )?image:\s*[\"']?([^\s\"']+)", re.MULTILINE)


def pinned(kustomization: str, image: str, digest: str) -> str:
    """The kustomization with the image by digest.

    Raises:
        ValueError: the digest is none, or the kustomization names no images.
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest")
    name = image.rpartition(":")[0] if ":" in image.rpartition("/")[2] else image
    entry = f"images:\n  - {{name: arranger, newName: {name}, digest: '{digest}'}}\n"
    changed, times = _IMAGES.subn(entry, kustomization)
    if times != 1:
        raise ValueError("the kustomization has no images, or has them twice")
    return changed


def unpinned(manifests: str) -> list[str]:
    """The images that a tag could move, or that no image was found."""
    images = _IMAGE.findall(manifests)
    if not images:
        return ["(no image at all)"]
    return sorted({each for each in images if not _DIGEST.fullmatch(each.rpartition("@")[2])})


def main(arguments: list[str]) -> int:
    """Do what the command line says; returns the exit status."""
    match arguments:
        case ["--check", file]:
            found = unpinned(Path(file).read_text(encoding="utf-8"))
            sys.stdout.writelines(f"not by digest: {each}\n" for each in found)
            return 1 if found else 0
        case [folder, image, digest]:
            file = Path(folder) / "kustomization.yaml"
            file.write_text(
                pinned(file.read_text(encoding="utf-8"), image, digest), encoding="utf-8"
            )
            return 0
        case _:
            sys.stdout.write(__doc__ or "")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
