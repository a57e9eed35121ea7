"""What kube-apiserver refuses of workloads, as far as their controllers would stumble over it."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector
from arranger.embedded import Object
from arranger.embedded.errors import invalid

_COUNTS: Final = (
    *("replicas", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"),
)


def check_workload(workload: Object) -> None:
    """Check a workload, as its apiVersion and kind say.

    Raises:
        ApiError: 422.
    """
    kind, spec = workload["kind"], workload.get("spec")
    group = workload["apiVersion"].rpartition("/")[0]
    causes = [("FieldValueInvalid", field, why) for field, why in _problems(kind, group, spec)]
    if causes:
        raise invalid(kind, group, workload["metadata"].get("name", ""), causes[:1])


def _problems(kind: str, group: str, spec: object) -> list[tuple[str, str]]:
    if not isinstance(spec, dict):
        return [("spec", "Required value")]
    found = []
    for field in _COUNTS:
        count = spec.get(field, 0)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            found.append((f"spec.{field}", f"Invalid value: {count!r}: must be a number from 0"))
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return [*found, ("spec.template.spec", "Required value")]
    if not isinstance(template["spec"].get("containers"), list):
        found.append(("spec.template.spec.containers", "Required value"))
    if group == "apps":
        found += _selector_problems(spec, template)
    policy = template["spec"].get("restartPolicy", "Always")
    if kind == "Job":
        if policy not in ("Never", "OnFailure"):
            why = f'Required value: valid values: "OnFailure", "Never", not {policy!r}'
            found.append(("spec.template.spec.restartPolicy", why))
        if spec.get("completionMode") == "Indexed" and "completions" not in spec:
            why = "Required value: when completion mode is Indexed"
            found.append(("spec.completions", why))
    elif policy != "Always":
        why = f'Unsupported value: {policy!r}: supported values: "Always"'
        found.append(("spec.template.spec.restartPolicy", why))
    return found


def _selector_problems(spec: Object, template: Object) -> list[tuple[str, str]]:
    if spec.get("selector") is None:
        return [("spec.selector", "Required value")]
    try:
        selector = Selector(msgspec.convert(spec["selector"], LabelSelector))
        labels = msgspec.convert(
            (template.get("metadata") or {}).get("labels") or {}, dict[str, str]
        )
    except msgspec.ValidationError as error:
        return [("spec.selector", f"Invalid value: {error}")]
    if selector.empty or not selector.matches(labels):
        why = f"Invalid value: {labels}: `selector` does not match template `labels`"
        return [("spec.template.metadata.labels", why)]
    return []
