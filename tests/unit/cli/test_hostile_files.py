"""Files that do their worst, given to each command: one line, an exit code, no traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arranger.cli.main import main
from tests.unit.cli.hostile_texts import harm

DIGITS = "9" * 5000
NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
    "status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110}}\n"
)


def a_workload(kind: str, version: str, **spec: Any) -> str:
    pod = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "arranger"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**pod, "restartPolicy": "Never"}}
    content = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}}
    return f"{NODE}---\n{json.dumps({**head, 'spec': content})}"


FILES: dict[str, str | bytes] = {
    "deep.yaml": "[" * 100_000,
    "deep-map.yaml": "{a: " * 100_000,
    "deep.json": "[" * 100_000,
    "deep-pod.json": '{"kind":"Pod","metadata":' + '{"a":' * 900 + "1" + "}" * 901,
    "deep-lines.jsonl": "{}\n" + '{"a":' * 5_000,
    "laughs.yaml": "a: &a [x]\n"
    + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 20)}]\n"
        for old, new in ("ab", "bc", "cd", "de", "ef", "fg", "gh")
    ),
    "itself.yaml": "&a {kind: Pod, metadata: *a}",
    "digits.yaml": f"kind: Pod\nmetadata: {{name: p, generation: {DIGITS}}}",
    "digits.json": f'{{"kind": "Pod", "metadata": {{"generation": {DIGITS}}}}}',
    "digits-line.jsonl": f'{{"nodes": [{DIGITS}]}}',
    "amount.yaml": NODE.replace("64Gi", "1e1000000"),
    "amounts.yaml": NODE.replace("64Gi", f"'{DIGITS}'"),
    "object.yaml": "!!python/object/apply:os.system [ls]",
    "names.yaml": f'apiVersion: "\\e[2J"\nkind: "\\e[2J[/x]"\nmetadata: {{name: {"a" * 9999}}}',
    "spec.json": '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": 5}',
    "lists.json": '{"kind": "List", "items": [{"kind": "List", "items": [{"kind": []}]}]}',
    "zeros.yaml": b"\x00" * 1000,
    "bits.json": bytes(range(256)),
    "bits.yaml.gz": gzip.compress(bytes(range(256)))[:-6],
    "deployment.yaml": a_workload("Deployment", "apps/v1", replicas=2_000_000_000),
    "set.yaml": a_workload("StatefulSet", "apps/v1", replicas=2_000_000_000),
    "job.yaml": a_workload("Job", "batch/v1", completions=10**9, parallelism=10**9),
    "jobs.yaml": a_workload("Job", "batch/v1", completions=10**30),
    "empty.yaml": "",
}
COMMANDS = {
    "explain": ["explain", "--snapshot"],
    "simulate": ["simulate", "-f"],
    "demo": ["demo", "-f"],
    "run": ["run", "--config"],
    "controllers": ["controllers", "--config"],
    "kubeconfig": ["queue", "--kubeconfig"],
    "trace": ["simulate", "--trace"],
}
#: What may be tried: nothing is wrong with it for these commands.
FINE = {
    *(("simulate", file) for file in ("amount.yaml", "amounts.yaml", "names.yaml", "empty.yaml")),
    *(("explain", file) for file in ("amount.yaml", "amounts.yaml", "names.yaml")),
    *(("explain", file) for file in ("lists.json", "empty.yaml")),
    *(("explain", file) for file in ("deployment.yaml", "set.yaml", "job.yaml", "jobs.yaml")),
}
#: What is wrong with these, if anything, is not in how they are written.
WELL_WRITTEN = {"deployment.yaml", "set.yaml", "job.yaml", "jobs.yaml", "empty.yaml"}
WELL_WRITTEN |= {"amount.yaml", "amounts.yaml", "names.yaml", "spec.json"}
CASES = [
    (command, file)
    for command in COMMANDS
    for file in FILES
    if command in ("explain", "simulate") or file not in WELL_WRITTEN
]


@pytest.mark.parametrize(("command", "file"), CASES, ids=map(" ".join, CASES))
def test_a_file_is_refused_in_one_line(command: str, file: str, tmp_path: Path) -> None:
    content = FILES[file]
    path = tmp_path / file
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if command == "trace":
        path = path.rename(tmp_path / "pod_list.csv")
        (tmp_path / "node_list.csv").write_bytes(path.read_bytes())
    result = CliRunner().invoke(main, [*COMMANDS[command], str(path)])
    assert harm(result.output) == ""
    assert "cannot be worked out" not in result.output
    if result.exit_code == 0:
        assert (command, file) in FINE, result.output
    else:
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit)
        # Of several snapshots in a file those before the bad one are judged.
        *before, line = result.output.splitlines()
        assert before == [] or file.endswith(".jsonl")
        assert line.startswith("Error: ")
        assert len(line) < 1000


def test_a_defect_of_ours_is_a_line_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("arranger.explain.read_snapshots", broken)
    (tmp_path / "s").write_text("{}")
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(tmp_path / "s")])
    assert result.exit_code == 1
    assert (
        result.output
        == "Error: this cannot be worked out: MemoryError (ARRANGER_TRACEBACK=1 shows where)\n"
    )
    monkeypatch.setenv("ARRANGER_TRACEBACK", "1")
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(tmp_path / "s")])
    assert isinstance(result.exception, MemoryError)
