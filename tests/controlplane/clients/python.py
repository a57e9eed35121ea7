"""The ``kubernetes`` package of Python, connected to a real API server."""

from __future__ import annotations

from kubernetes import client, config

from tests.controlplane.harness import ControlPlane


def connect(plane: ControlPlane) -> client.ApiClient:
    """A client with the rights of an administrator."""
    configuration = client.Configuration()
    home = str(plane.kubeconfig("python"))
    config.load_kube_config(config_file=home, client_configuration=configuration)
    return client.ApiClient(configuration)
