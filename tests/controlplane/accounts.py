"""Service accounts with a role, as an administrator makes them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.admin import PATIENCE, until
from tests.controlplane.harness import ControlPlane

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def account(plane: ControlPlane, name: str, role: str = "") -> str:
    """The token of a new account; if a ClusterRole is named, the server knows that it has it."""
    manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await plane.post(ACCOUNTS, manifest)
    if role:
        await bind(plane, name, role)
    return await plane.service_account_token("default", name)


async def bind(plane: ControlPlane, name: str, role: str) -> None:
    """Give an account a ClusterRole; returns once the server knows."""
    (right, *_) = (await plane.get(f"{RBAC}/clusterroles/{role}"))["rules"]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{name}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    await plane.post(f"{RBAC}/clusterrolebindings", binding)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:default:{name}", **_attributes(right)},
    }

    async def known() -> bool:
        return bool((await plane.post(REVIEWS, review))["status"]["allowed"])

    await until(known, within=PATIENCE, what=f"{name} is {role}")


def _attributes(right: dict[str, Any]) -> dict[str, Any]:
    """One request that a rule of a role allows."""
    verb = right["verbs"][0]
    if "nonResourceURLs" in right:
        return {"nonResourceAttributes": {"path": right["nonResourceURLs"][0], "verb": verb}}
    group, resource = right["apiGroups"][0], right["resources"][0]
    return {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}}
