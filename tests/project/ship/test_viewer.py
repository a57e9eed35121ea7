"""The role of those who only look lists and watches what the scheduler reads, and writes not."""

from __future__ import annotations

import yaml

from tests.paths import REPO
from tests.rights import granted, rights_of_rules


def test_a_viewer_lists_all_that_the_scheduler_reads_and_no_more() -> None:
    role = yaml.safe_load((REPO / "manifests/95-viewer.yaml").read_text())
    rights = rights_of_rules(role["rules"])
    read = {right for right in granted("arranger") if right[2] == "list"}
    known = {
        ("scheduling.k8s.io", "priorityclasses", "list"),
        ("resource.k8s.io", "resourceclaimtemplates", "list"),
    }
    assert read <= rights
    single = {("coordination.k8s.io", "leases", "get"), ("", "configmaps", "get")}
    assert {verb for _, _, verb in rights - single} == {"list", "watch"}
    assert [rule["resourceNames"] for rule in role["rules"] if rule["resources"] == ["configmaps"]]
    # One rule names three groups; of what is not there nothing can be read.
    assert {
        (group, name) for group, name, verb in rights - read - known - single if verb == "list"
    } <= {
        ("scheduling.sigs.k8s.io", "queues"),
        ("scheduling.x-k8s.io", "queues"),
    }
