"""An in-process Kubernetes API server with hollow kubelets, for the demo, simulation and tests."""

from typing import Any

#: An object of the API, as decoded from JSON.
Object = dict[str, Any]


def copy_json(value: Any) -> Any:
    """A copy of a JSON value, all the way down."""
    if isinstance(value, dict):
        return {name: copy_json(child) for name, child in value.items()}
    return [copy_json(child) for child in value] if isinstance(value, list) else value
