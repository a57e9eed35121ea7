"""Looks a kubeconfig through for what people get wrong, before the loader stumbles over it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from arranger.files.content import read_text
from arranger.files.limits import FileError
from arranger.files.yaml_text import one_document

_LISTS: Final = ("clusters", "contexts", "users")


class KubeconfigError(Exception):
    """No usable configuration was found; the message says what is wrong with which file."""


def check_kubeconfig(paths: str, context: str | None) -> str:
    """Look through one kubeconfig, or several separated as in ``$KUBECONFIG``.

    Returns:
        The command of the plugin that gives the context's credentials; "" for none.

    Raises:
        KubeconfigError: what is wrong.
    """
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    files = [file for file in files if file.exists()]
    if not files:
        raise KubeconfigError(
            f"kubeconfig {paths}: no such file; name one with --kubeconfig or in $KUBECONFIG"
        )
    merged: dict[str, dict[str, Any]] = {each: {} for each in _LISTS}
    current = ""
    for file in files:
        content = _read(file)
        current = content.get("current-context") or current
        for each in _LISTS:
            for item in content.get(each) or []:
                merged[each].setdefault(item["name"], item)
    try:
        return _check_context(merged, context, current)
    except KubeconfigError as error:
        raise KubeconfigError(f"kubeconfig {paths}: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        content = one_document(read_text(file))
    except FileError as error:
        raise KubeconfigError(f"kubeconfig {file}: {file_error(error)}") from error
    if not isinstance(content, dict) or not all(
        isinstance(item, dict) and "name" in item
        for each in _LISTS
        for item in (content.get(each) or [])
    ):
        raise KubeconfigError(f"kubeconfig {file}: this is no kubeconfig (kind: Config)")
    return content


def _check_context(merged: dict[str, dict[str, Any]], context: str | None, current: str) -> str:
    contexts = merged["contexts"]
    if not (context or current):
        raise KubeconfigError(
            f"it has no current-context; choose one with --context: {_names(contexts)}"
        )
    if (name := context or current) not in contexts:
        which = "context" if context else "current-context"
        raise KubeconfigError(f"there is no {which} {name!r} in it, but {_names(contexts)}")
    chosen = contexts[name].get("context") or {}
    for kind in ("cluster", "user"):
        named = chosen.get(kind)
        if named not in merged[f"{kind}s"] and (named or kind == "cluster"):
            raise KubeconfigError(
                f"context {name!r} names the {kind} {named!r}, which is not in it, but"
                f" {_names(merged[f'{kind}s'])}"
            )
    cluster = merged["clusters"][chosen["cluster"]].get("cluster") or {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise KubeconfigError(
            f"the server {server!r} of cluster {chosen['cluster']!r} is no URL such as"
            " https://HOST:6443"
        )
    user = merged["users"].get(chosen.get("user") or "", {}).get("user") or {}
    return str((user.get("exec") or {}).get("command") or "")


def _names(items: Iterable[str]) -> str:
    return ", ".join(map(repr, items)) or "none at all"


def file_error(error: FileError) -> str:
    """Why a file could not be read, in one line, and where."""
    if error.column is not None:
        return f"{error}, in line {error.line}, column {error.column}"
    return f"{error}, in line {error.line}" if error.line is not None else str(error)
