"""What our service accounts have asked a real API server for, from its audit log; and whether
``manifests/`` give them that and no more.

    ARRANGER_RIGHTS_RECORD=asked.txt pytest -m controlplane tests/controlplane
    python -m tests.controlplane.audit asked.txt

Each control plane that ends while the variable is set adds to the file. The run that sets it is one
of the whole tier: when all its tests have passed, a right that nobody has asked for is superfluous,
and the run fails (:func:`verdict`). By hand it only says so.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.rights import ROLES, Right, granted

RECORD: Final = "ARRANGER_RIGHTS_RECORD"
PREFIX: Final = "system:serviceaccount:arranger-system:"
#: Watches are told of when they begin; they may never end.
POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:arranger-system"]
  - level: None
"""

_ABSENT: Final = "the definition is not installed there; the same code asks for the installed ones"
#: Rights that no test asks for, and why they are given all the same: group and resource → reason.
UNASKED: Final[Mapping[tuple[str, str], str]] = {
    **{
        ("kubeflow.org", kind): _ABSENT
        for kind in ("tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "mpijobs")
    },
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): _ABSENT,
    ("ray.io", "rayclusters"): _ABSENT,
    ("sparkoperator.k8s.io", "sparkapplications"): _ABSENT,
    ("argoproj.io", "workflows"): _ABSENT,
    ("batch.volcano.sh", "jobs/finalizers"): "asked by admission, of owners that block deletion",
    ("resource.k8s.io", "resourceclaims/binding"): "asked by the server, of who allocates devices",
    ("", "configmaps"): "asked where what queues have used counts",
    ("authentication.k8s.io", "tokenreviews"): "asked where somebody reads metrics with a token",
    ("authorization.k8s.io", "subjectaccessreviews"): "as above",
}
#: The same by verb: what goes with another right, or comes after a fault only.
RARE: Final[Mapping[str, str]] = {
    "list": "servers that stream the first list answer a watch instead",
    "get": "a write in conflict, or whose answer was lost, is settled by reading the object",
}


def record(audit_log: Path) -> None:
    """Add what an audit log says to the record, if one is kept."""
    if (path := os.environ.get(RECORD)) and audit_log.exists():
        lines = sorted({"\t".join(each) for each in asked_in(audit_log.read_text().splitlines())})
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def asked_in(lines: Iterable[str]) -> set[tuple[str, ...]]:
    """Account, decision, group, resource and verb of each request of ours in an audit log."""
    found = set()
    for line in lines:
        event = json.loads(line)
        about, user = event.get("objectRef"), event["user"]["username"]
        if about is None or not user.startswith(PREFIX):
            continue
        resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision", "")
        account = user.removeprefix(PREFIX)
        found.add((account, decision, about.get("apiGroup", ""), resource, event["verb"]))
    return found


def compare(asked: Mapping[str, set[Right]]) -> list[str]:
    """What is wrong: rights that were asked for in vain, and rights that nobody asks for."""
    found = []
    for account in ROLES:
        given, taken = granted(account), asked.get(account, set())
        found += [f"{account} lacks {right}" for right in sorted(taken - given)]
        unasked = sorted(r for r in given - taken if r[:2] not in UNASKED and r[2] not in RARE)
        found += [f"{account} never asks for {right}" for right in unasked]
    return found


def _is_for_all(group: str, resource: str) -> bool:
    """Whether every account may ask that, as what it may do itself."""
    return group in ("authorization.k8s.io", "authentication.k8s.io") and resource.startswith(
        "self"
    )


def problems_of(record: Path) -> list[str]:
    """What is wrong by a record: see :func:`compare`."""
    asked: dict[str, set[Right]] = {}
    for line in record.read_text().splitlines():
        account, decision, group, resource, verb = line.split("\t")
        if decision == "allow" and not _is_for_all(group, resource):
            asked.setdefault(account, set()).add((group, resource, verb))
    return compare(asked)


def verdict() -> list[str]:
    """What is wrong by the record of this run, if one is kept and any control plane has run."""
    record = Path(os.environ.get(RECORD, ""))
    return problems_of(record) if record.is_file() else []


def main(path: str) -> int:
    """Compare a record with the manifests."""
    problems = problems_of(Path(path))
    told = problems or ["the rights asked for are those that are given"]
    sys.stdout.write("".join(f"{problem}\n" for problem in told))
    # A run of a part of the tests asks for less: what nobody asks for is for people to look at.
    return 1 if any(" lacks " in problem for problem in problems) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
