"""The oracle: kube-scheduler's own plugins in one long-lived process that evaluates snapshots."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.builds import build_folder
from tests.paths import REPO

MODULE = REPO / "tests" / "controlplane"
Snapshot = Mapping[str, Any]


class OracleError(RuntimeError):
    """The oracle could not evaluate a snapshot; the message says why."""


def oracle_path() -> Path:
    """Where ``make oracle`` puts the binary that was built from the present sources."""
    sources = [
        MODULE / "go.mod",
        MODULE / "go.sum",
        *sorted((MODULE / "cmd/oracle").glob("*.go")),
    ]
    return build_folder("oracle", sources) / "arranger-oracle"


class Oracle:
    """One process; use it as a context manager. It ends when its input is closed, or we do."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [oracle_path()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def evaluate(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """kube-scheduler's verdicts on the pending pods of a snapshot.

        Raises:
            OracleError: it cannot read the snapshot, or a plugin failed.
        """
        assert self._process.stdin is not None, "asked for with PIPE"
        assert self._process.stdout is not None, "asked for with PIPE"
        self._process.stdin.write(json.dumps(snapshot) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle ended with status {self._process.wait()}")
        verdicts = json.loads(line)
        if isinstance(verdicts, dict):
            raise OracleError(verdicts["error"])
        for verdict in verdicts:
            if "error" in verdict:
                raise OracleError(f"{verdict['pod']}: {verdict['error']}")
        return verdicts  # type: ignore[no-any-return]
