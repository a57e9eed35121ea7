"""The default plugins in the order they run, and the extension points they take part in."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.framework import Plugin
from docs.generator.configuration import default, kind
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "The plugins of a profile without settings, in the order they run. A dash is the weight of a "
    "plugin that gives no scores. Arguments are those of kube-scheduler's plugins of the same "
    "name, where it has one; they are set under `profiles[].pluginConfig`, see "
    "[Configuration](configuration.md)."
)


def page() -> str:
    """The extension points, the default plugins, and the arguments of those that have some."""
    lines = heading("Plugins", "`arranger/plugins` and `arranger/framework`")
    lines += ["## Default plugins", "", INTRODUCTION, ""]
    (profile,) = build_profiles(Config())
    scoring = profile.plugins_at("score")
    rows, arguments = [], []
    for each in profile.plugins:
        plugin, fields = each.plugin, _fields(each.plugin.Args)
        weight = str(each.weight) if plugin in scoring else "–"
        named = ", ".join(map(code, fields)) or "–"
        rows.append([plugin.name, weight, named, _summary(type(plugin))])
        if plugin.Args is not None and fields:
            arguments += [f"### {plugin.name}", "", *_text(plugin.Args), ""]
            shown = [[code(name), kind(f.annotation), default(f)] for name, f in fields.items()]
            arguments += table(["argument", "type", "default"], shown)
    lines += table(["plugin", "weight", "arguments", "what it does"], rows)
    lines += ["## Arguments of plugins", "", *arguments]
    lines += ["## Extension points", "", "Methods of `arranger.framework.Plugin`.", ""]
    return text_of([*lines, *table(["method", "meaning"], _points())])


def _points() -> Iterator[list[str]]:
    """The methods that a plugin may have, in their order."""
    for name, method in vars(Plugin).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            parameters = ", ".join(list(inspect.signature(method).parameters)[1:])
            yield [code(f"{name}({parameters})"), _summary(method)]


def _summary(subject: object) -> str:
    return (inspect.getdoc(subject) or "").split("\n\n")[0].replace("``", "`")


def _fields(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """A plugin's own arguments; every plugin's may name the type they are of."""
    fields = model.model_fields.values() if model else ()
    return {f.alias or "": f for f in fields if f.alias not in ("apiVersion", "kind")}


def _text(model: type[BaseModel]) -> list[str]:
    return [
        " ".join(part.split()).replace("``", "`")
        for part in (inspect.getdoc(model) or "").split("\n\n")
    ]
