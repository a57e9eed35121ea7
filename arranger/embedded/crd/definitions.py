"""CustomResourceDefinitions: the status they are given, and the schemas of their versions."""

from __future__ import annotations

from typing import Final

from arranger.embedded import Object
from arranger.embedded.crd.cel_rules import SchemaError
from arranger.embedded.crd.schema import CustomSchema
from arranger.embedded.errors import invalid

_CONDITIONS: Final = (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))


def accepted_status(definition: Object, now: str) -> Object:
    """The status of a definition; here every one is accepted at once."""
    spec = definition["spec"]
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
        for kind, reason in _CONDITIONS
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}


def version_schemas(definition: Object) -> dict[str, CustomSchema]:
    """The schema of each version of a definition.

    Raises:
        ApiError: 422, a schema is invalid.
    """
    versions = definition["spec"]["versions"]
    found, causes = {}, []
    for n, version in enumerate(versions):
        where = f"versions[{n}].schema" if len(versions) > 1 else "validation"
        try:
            found[version["name"]] = CustomSchema.parse(version["schema"]["openAPIV3Schema"])
        except SchemaError as error:
            place = f"spec.{where}.openAPIV3Schema{error.field}"
            causes.append((error.reason, place, error.message))
    if causes:
        name = definition["metadata"]["name"]
        raise invalid("CustomResourceDefinition", "apiextensions.k8s.io", name, causes)
    return found
