"""The oracle: kube-scheduler's own plugins in one long-lived process that evaluates snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.differential.go_program import GoProgram

Snapshot = Mapping[str, Any]


class OracleError(RuntimeError):
    """The oracle could not evaluate a snapshot; the message says why."""


class Oracle(GoProgram):
    """The program that evaluates snapshots."""

    name = "oracle"

    def evaluate(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """kube-scheduler's verdicts on the pending pods of a snapshot.

        Raises:
            OracleError: it cannot read the snapshot, or a plugin failed.
        """
        line = self.answer(snapshot)
        if not line:
            raise OracleError(f"the oracle ended with status {self._process.wait()}")
        verdicts = json.loads(line)
        if isinstance(verdicts, dict):
            raise OracleError(verdicts["error"])
        for verdict in verdicts:
            if "error" in verdict:
                raise OracleError(f"{verdict['pod']}: {verdict['error']}")
        return verdicts  # type: ignore[no-any-return]
