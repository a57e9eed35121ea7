"""Where plugins come from: those we ship, Python entry points, and files named in the config."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from arranger.framework.interface import Plugin
from arranger.framework.runtime.config_errors import config_errors, suggest

#: A distribution offers plugins as ``[project.entry-points."arranger.plugins"]``.
ENTRY_POINT_GROUP: Final = "arranger.plugins"


class PluginError(ValueError):
    """A plugin cannot be found, loaded or configured; the message names it."""


class ArgumentsError(PluginError):
    """A plugin does not accept its arguments.

    Attributes:
        errors: ``path: what is wrong`` for each of them; paths begin below the arguments.
    """

    def __init__(self, message: str, wrong: tuple[str, ...]) -> None:
        super().__init__(message)
        self.errors = wrong


@cache
def _installed() -> EntryPoints:
    """What installed distributions offer: to look through all of them takes milliseconds."""
    return entry_points(group=ENTRY_POINT_GROUP)


class Registry:
    """Plugin classes by name."""

    def __init__(self, classes: Iterable[type[Plugin]] = ()) -> None:
        self._classes: dict[str, type[Plugin]] = {}
        for plugin in classes:
            self.add(plugin, origin="arranger")

    def names(self) -> tuple[str, ...]:
        """All known names."""
        return tuple(self._classes)

    def add(self, plugin: type[Plugin], *, origin: str) -> None:
        """Register a class under its name.

        Raises:
            PluginError: the name is taken.
        """
        known = self._classes.get(plugin.name)
        if known is not None and known is not plugin:
            raise PluginError(f"{origin}: a plugin named {plugin.name!r} exists already")
        self._classes[plugin.name] = plugin

    def add_entry_points(self) -> None:
        """Load what installed distributions offer.

        Raises:
            PluginError: an entry point does not load, or is not a plugin.
        """
        for entry in _installed():
            try:
                loaded = entry.load()
            except Exception as error:
                raise PluginError(f"entry point {entry.name!r}: {error}") from error
            if not (inspect.isclass(loaded) and issubclass(loaded, Plugin)):
                raise PluginError(f"entry point {entry.name!r} is {loaded!r}, not a Plugin class")
            self.add(loaded, origin=f"entry point {entry.name!r}")

    def add_file(self, path: Path) -> None:
        """Load every Plugin class that a Python file defines.

        Raises:
            PluginError: the file cannot be read or run, or defines no plugin.
        """
        if not path.is_file():
            raise PluginError(f"plugin file {path}: no such file")
        # Two files may have one name, and dataclasses look for their module among those imported.
        digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
        name = f"arranger_plugin_{path.stem}_{digest}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise PluginError(f"plugin file {path}: not a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise PluginError(f"plugin file {path}: {type(error).__name__}: {error}") from error
        found = [
            member
            for member in vars(module).values()
            if inspect.isclass(member)
            and issubclass(member, Plugin)
            and member.__module__ == module.__name__
        ]
        if not found:
            raise PluginError(f"plugin file {path}: defines no subclass of Plugin")
        for plugin in found:
            self.add(plugin, origin=f"plugin file {path}")

    def unknown_message(self, name: str) -> str:
        """The error about a name that no plugin has."""
        hint = suggest(name, self._classes)
        return f"no plugin named {name!r}{hint or '; known: ' + ', '.join(self._classes)}"

    def make(self, name: str, args: Mapping[str, Any] | None = None) -> Plugin:
        """Build a plugin with its arguments.

        Raises:
            ArgumentsError: the arguments do not fit; the message gives the path of each wrong
                field.
            PluginError: the name is unknown, or the plugin cannot be made.
        """
        plugin = self._classes.get(name)
        if plugin is None:
            raise PluginError(self.unknown_message(name))
        if plugin.Args is None and args:
            message = f"plugin {name} takes no arguments, got {', '.join(sorted(args))}"
            raise ArgumentsError(message, (message,))
        try:
            if plugin.Args is None:
                return plugin()
            return plugin(plugin.Args.model_validate(args or {}))  # type: ignore[call-arg]
        except ValidationError as error:
            errors = config_errors(plugin.Args, error) if plugin.Args is not None else ()
            message = f"arguments of plugin {name}: {'; '.join(errors) or error}"
            raise ArgumentsError(message, errors) from error
        except Exception as error:  # of somebody's own class
            raise PluginError(f"plugin {name}: {type(error).__name__}: {error}") from error
