"""Puts a list of all that is shipped with Arranger (an SBOM, in CycloneDX) into the wheel.

It is made from ``requirements.lock``, which is what the image installs, and lies in the wheel's
``.dist-info/sboms/`` (PEP 770). Equal sources give equal bytes: it has no time and no chance in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOCK: Final = "requirements.lock"
FILE: Final = "build/sbom/arranger.cdx.json"
_NAMESPACE: Final = uuid.UUID("7b6f9a52-2a5c-5d0e-9d0c-3a1f5f2f8c11")
#: A pinned requirement, its hashes and who wants it.
_ENTRY: Final = re.compile(
    r"^([a-z0-9.-]+)(?:\[[a-z0-9,-]+\])?==(\S+) \\\n((?:    \S.*\n)+)", re.MULTILINE
)
_WANTED_BY: Final = re.compile(r"^    # (?:  |via )([a-z0-9.-]+)(?:[ \[].*)?$", re.MULTILINE)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the list before a wheel is packed."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        file = root / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = (root / LOCK).read_text(encoding="utf-8")
        file.write_text(sbom(lock, self.metadata.version), encoding="utf-8")
        build_data["sbom_files"].append(FILE)


def sbom(lock: str, version: str) -> str:
    """The CycloneDX document of a lock file."""
    ours = f"pkg:pypi/arranger@{version}"
    found = {name: (pinned, rest) for name, pinned, rest in _ENTRY.findall(lock)}
    refs = {name: f"pkg:pypi/{name}@{pinned}" for name, (pinned, _) in found.items()}
    needs: dict[str, list[str]] = {ref: [] for ref in (ours, *refs.values())}
    for name, (_, rest) in found.items():
        for wanted_by in _WANTED_BY.findall(rest):
            needs[ours if wanted_by == "arranger" else refs[wanted_by]].append(refs[name])
    digest = hashlib.sha256(lock.encode()).hexdigest()
    root = {"type": "application", "bom-ref": ours, "name": "arranger", "version": version}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{ours} {digest}')}",
        "version": 1,
        "metadata": {
            "component": {**root, "purl": ours, "licenses": [{"license": {"id": "Apache-2.0"}}]},
            "properties": [{"name": f"sha256 of {LOCK}", "value": digest}],
        },
        "components": [
            {
                "type": "library",
                "bom-ref": ref,
                "name": name,
                "version": found[name][0],
                "purl": ref,
            }
            for name, ref in refs.items()
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(each)} for ref, each in needs.items()],
    }
    return json.dumps(document, indent=1) + "\n"
