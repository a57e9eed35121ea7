"""Nothing but ``arranger/api/parsing`` and the quantities make something out of a text of others.

A call that could raise, hold the loop or fill the memory because of a text is looked for in the
syntax tree of every file. What is allowed elsewhere reads no tenant's text; each entry says what.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.paths import REPO

#: Where texts are read.
READERS: Final = ("arranger/api/parsing/", "arranger/api/quantity.py")
#: Modules → what of them makes something out of a text; ``*`` for all of it.
PARSERS: Final = {
    "ast": {"parse", "literal_eval"},
    "base64": {"*"},
    "binascii": {"*"},
    "csv": {"*"},
    "decimal": {"Decimal"},
    "fractions": {"*"},
    "gzip": {"*"},
    "ipaddress": {"*"},
    "json": {"load", "loads", "JSONDecoder"},
    "msgspec": {"convert"},
    "msgspec.json": {"decode", "Decoder"},
    "msgspec.yaml": {"decode"},
    "pickle": {"*"},
    "re": {"*"},
    "yaml": {"*"},
    "zlib": {"decompress", "decompressobj"},
}
#: Methods that read a text, or a number that may be out of range, whatever they are called on.
METHODS: Final = {"fromisoformat", "strptime", "fromtimestamp", "from_bytes", "fromhex"}
BUILTINS: Final = {"int", "float", "complex", "eval", "exec"}
#: What these methods return is a number already.
NUMBERS: Final = {"argmax", "max", "min", "sum", "timestamp", "matches", "total_seconds"}

_ADMIN: Final = "the administrator's configuration"
#: Files and folders → whose texts they read.
ALLOWED_FILES: Final = {
    "arranger/cel/": "expressions of 10 KiB at most; their texts are measured before they are read",
    "arranger/cli/": "what its user types, and answers for him",
    "arranger/daemon/config/": _ADMIN,
    "arranger/embedded/": "an API server of our own: it refuses what it cannot read",
    "arranger/explain/": "files of its user",
    "arranger/files/": "files of strangers, which it bounds",
    "arranger/kube/client/kubeconfig_check.py": "the administrator's kubeconfig",
    "arranger/replay/": "files of its user",
}
_COLUMN: Final = "an entry of a column, which NumPy keeps as a number"
_NUMBER: Final = "of a number, for the type or to round it down"
_NAME_FORM: Final = "a form of names in which no text can be matched in two ways"
#: File → call → why no text of others does harm there.
ALLOWED_CALLS: Final[dict[str, dict[str, str]]] = {
    "arranger/api/settings/gang_settings.py": {"re.compile": _NAME_FORM, "float": _NUMBER},
    "arranger/api/selectors.py": {"re.compile": _NAME_FORM},
    "arranger/api/types/tyjob.py": {"re.compile": _NAME_FORM, "int": "of a truth value"},
    "arranger/backfill/planner.py": {"int": _COLUMN, "float": _COLUMN},
    "arranger/cluster/excess_amounts.py": {"int": _COLUMN},
    "arranger/cluster/nodes/node_view.py": {"int": _COLUMN},
    "arranger/cluster/nodes/topology_counts.py": {"int": _COLUMN},
    "arranger/controllers/vcjob/controlled_resources.py": {"re.compile": "ranges, six digits each"},
    "arranger/controllers/vcjob/policies.py": {"int": _NUMBER},
    "arranger/controllers/vcjob/state_machine.py": {"fromtimestamp": "the beginning of 1970"},
    "arranger/controllers/vcjob/validation.py": {"re.compile": _NAME_FORM},
    "arranger/daemon/scheduler.py": {"fromtimestamp": "the clock of this machine"},
    "arranger/daemon/serving/certificate.py": {"ipaddress.ip_address": "of a constant"},
    "arranger/daemon/serving/connections.py": {
        "ipaddress.ip_address": "of an address that a socket has",
        "ipaddress.ip_network": "of the same",
    },
    "arranger/daemon/serving/health.py": {
        "int": "the port of a socket of ours",
        "ipaddress.ip_address": "of an address that a socket has",
    },
    "arranger/engine/gang/state/gang_objects.py": {"fromtimestamp": "a time that was a datetime"},
    "arranger/engine/gang/state/holds.py": {"int": "the clock of this machine"},
    "arranger/engine/gang/state/observed_gang.py": {"fromtimestamp": "a time not far from now"},
    "arranger/engine/gang/placement/topology.py": {"int": _COLUMN},
    "arranger/engine/pod/reserve_and_permit.py": {"float": "what a plugin answers"},
    "arranger/engine/pod/second_filter_pass.py": {"int": _COLUMN},
    "arranger/engine/queue/backoff.py": {"int": "of a truth value"},
    "arranger/framework/diagnosis.py": {"int": _COLUMN, "re.compile": "texts of our own"},
    "arranger/gangs/planned_start.py": {"fromtimestamp": "a time not far from now"},
    "arranger/gangs/workloads/expressions.py": {"ast.parse": _ADMIN},
    "arranger/kube/client/transport.py": {"re.compile": _NAME_FORM},
    "arranger/kube/client/problems.py": {"re.compile": "refusals of the server"},
    "arranger/kube/client/status.py": {"float": _NUMBER},
    "arranger/kube/extenders/wire.py": {
        "msgspec.json.Decoder": "answers of extenders that have no other fields than these",
    },
    "arranger/kube/leader_election.py": {"int": _ADMIN},
    "arranger/kube/watch/decoder.py": {"msgspec.json.Decoder": "of all that is watched"},
    "arranger/kube/writes/concurrency_limiter.py": {"int": _NUMBER},
    "arranger/plugins/dynamicresources/cel_selectors.py": {
        "re.compile": "strings of a selector, of 10 KiB at most; no text matches in two ways",
    },
    "arranger/plugins/nodes/node_affinity.py": {"msgspec.convert": _ADMIN},
    "arranger/plugins/nodes/node_ports.py": {"int": _COLUMN},
    "arranger/plugins/topology/pod_topology_spread.py": {"msgspec.convert": _ADMIN},
    "arranger/plugins/volumes/volume_binding.py": {"float": _ADMIN},
    "arranger/quota/cards.py": {"re.compile": _NAME_FORM},
    "arranger/quota/min_resources.py": {"int": _NUMBER},
    "arranger/shadow/forecasts/branch.py": {"int": "what the system says of the process itself"},
    "arranger/ui/security.py": {
        "ipaddress.ip_address": "of an address to serve at, from the command line",
        "re.compile": "one class of characters, of a length that is bounded",
    },
    "arranger/ui/server.py": {"int": "the port of a socket"},
    "arranger/ui/views/nodes.py": {"int": _COLUMN},
}


def parsing_calls(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of all that makes something out of a text."""
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            used = [] if _is_of_number(node) else [node.func]
            if isinstance(node.func, ast.Name) and node.func.id in ("map", "filter"):
                used += node.args
            for each in used:
                if isinstance(each, ast.Name) and imported.get(each.id, each.id) in BUILTINS:
                    yield node.lineno, each.id
        if isinstance(node, ast.Name | ast.Attribute) and (name := _parser(node, imported)):
            yield node.lineno, name


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name in the file, full name) of what is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _is_of_number(call: ast.Call) -> bool:
    """Whether what is converted is a constant, or what a method of numbers returns."""
    if len(call.args) != 1 or call.keywords:
        return not call.args and not call.keywords
    match call.args[0]:
        case ast.Constant() | ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in NUMBERS
        case ast.BinOp(op=ast.Div()):
            return True
        case ast.BinOp(left=left, right=right):
            return any(isinstance(side, ast.Constant | ast.Call) for side in (left, right))
    return False


def _parser(node: ast.Name | ast.Attribute, imported: dict[str, str]) -> str:
    """The full name of what reads a text; "" for anything else."""
    if isinstance(node, ast.Attribute) and node.attr in METHODS:
        return node.attr
    first, _, rest = _dotted(node).partition(".")
    if first not in imported:
        return ""
    module, _, function = ".".join(filter(None, (imported[first], rest))).rpartition(".")
    known = PARSERS.get(module, set())
    found = function in known or ("*" in known and not function.isupper())
    return f"{module}.{function}" if found else ""


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def found_in_code() -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for path in sorted((REPO / "arranger").rglob("*.py")):
        file = path.relative_to(REPO).as_posix()
        if not file.startswith((*READERS, *ALLOWED_FILES)):
            for line, name in parsing_calls(path.read_text(encoding="utf-8")):
                found.setdefault((file, name), []).append(line)
    return found


FOUND = found_in_code()
ALLOWED = {(file, call) for file, calls in ALLOWED_CALLS.items() for call in calls}


def test_texts_of_others_are_read_by_the_readers_alone() -> None:
    assert {where: lines for where, lines in FOUND.items() if where not in ALLOWED} == {}


def test_nothing_is_allowed_that_is_not_there() -> None:
    assert sorted(ALLOWED - FOUND.keys()) == []


@pytest.mark.parametrize(
    "source",
    [
        "number = int(text)",
        "number = int(labels['a'])",
        "number = int(labels.get('a'))",
        "numbers = map(int, text.split())",
        "number = float(text)",
        "number = int(text, base=10)",
        "import json\njson.loads(text)",
        "import json as j\nj.loads(text)",
        "from json import loads\nloads(text)",
        "from json import loads as read\nread(text)",
        "import msgspec\nmsgspec.json.decode(text)",
        "from msgspec import json\njson.decode(text)",
        "import msgspec\ndecode = msgspec.json.Decoder(int).decode",
        "import msgspec\nmsgspec.convert(obj, Pod)",
        "from decimal import Decimal\nDecimal(text)",
        "import decimal\ndecimal.Decimal(text)",
        "from datetime import datetime\ndatetime.fromisoformat(text)",
        "from datetime import datetime\ndatetime.fromtimestamp(number)",
        "import re\nre.fullmatch('a', text)",
        "from re import compile\ncompile('a')",
        "import yaml\nyaml.safe_load(text)",
        "import ast\nast.literal_eval(text)",
        "import base64\nbase64.b64decode(text)",
    ],
)
def test_a_call_that_reads_a_text_is_found(source: str) -> None:
    assert list(parsing_calls(source))


@pytest.mark.parametrize(
    "source",
    [
        "number: int | None = None",
        "number = int(column.sum())",
        "forever = float('inf')",
        "import json\njson.dumps(thing)",
        "import msgspec\nmsgspec.json.encode(thing)",
        "isinstance(thing, bool)",
    ],
)
def test_other_calls_are_not(source: str) -> None:
    assert not list(parsing_calls(source))
