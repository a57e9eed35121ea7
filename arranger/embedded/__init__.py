"""An in-process Kubernetes API server with hollow kubelets, for the demo, simulation and tests."""

from typing import Any

#: An object of the API, as decoded from JSON.
Object = dict[str, Any]
