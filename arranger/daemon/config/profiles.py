"""The profiles of a configuration: plugins by name, with their weights and arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from arranger.daemon.config.extenders import ignored_resources
from arranger.daemon.config.schema import Config, ConfigError, ProfileConfig
from arranger.framework.runtime.config_errors import suggest
from arranger.framework.runtime.profile import PluginWeight, Profile, ProfileError
from arranger.framework.runtime.registry import ArgumentsError, PluginError, Registry
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.default_preemption import DefaultPreemption
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit


def build_profiles(config: Config) -> list[Profile]:
    """Make the profiles, loading third-party plugins.

    Raises:
        ConfigError: plugins are unknown, do not load, or do not accept their arguments; or those
            of a profile do not work together. The message names the file, and the path of every
            wrong field.
    """
    registry = Registry(weighted for weighted, _ in DEFAULT_PLUGINS)
    errors: list[str] = []
    try:
        registry.add_entry_points()
    except PluginError as error:
        errors.append(str(error))
    for n, file in enumerate(config.plugin_paths()):
        try:
            registry.add_file(file)
        except PluginError as error:
            errors.append(f"pluginFiles.{n}: {error}")
    # A file that did not load may define the unknown plugins: report one error, not two.
    builder = _ProfileBuilder(config, registry, errors, all_loaded=not errors)
    profiles = [builder.build(n) for n in range(len(config.profiles))]
    built = [profile for profile in profiles if profile is not None]
    if len({type(profile.queue_sort) for profile in built}) > 1:
        errors.append("profiles: all must sort the queue with the same plugin")
    if errors:
        source = f"{config.file}: " if config.file else ""
        raise ConfigError(source + "; ".join(errors))
    return built


class _ProfileBuilder:
    """Makes profiles, and collects what is wrong with them."""

    def __init__(
        self, config: Config, registry: Registry, errors: list[str], *, all_loaded: bool
    ) -> None:
        self._profiles = config.profiles
        self._ignored_resources = ignored_resources(config.extenders)
        self._registry, self._errors, self._all_loaded = registry, errors, all_loaded

    def build(self, number: int) -> Profile | None:
        """Make one profile; None, and its errors are collected, if it cannot be made."""
        config, where = self._profiles[number], f"profiles.{number}"
        before = len(self._errors)
        weights = self._weights(config, where)
        entries = {entry.name: n for n, entry in enumerate(config.plugin_config)}
        self._check_once((entry.name for entry in config.plugin_config), f"{where}.pluginConfig")
        for name, n in entries.items():
            if name not in weights:
                hint = suggest(name, weights)
                self._errors.append(f"{where}.pluginConfig.{n}.name: {name!r} is not enabled{hint}")
        arguments = self._arguments(config, weights)
        plugins: list[PluginWeight] = []
        known = self._registry.names()
        for name in filter(known.__contains__, weights):
            at = f"{where}.pluginConfig.{entries[name]}.args" if name in entries else where
            try:
                made = self._registry.make(name, arguments.get(name))
            except ArgumentsError as error:
                self._errors.extend(f"{at}.{each}" for each in error.errors)
            except PluginError as error:
                self._errors.append(f"{at}: {error}")
            else:
                plugins.append(PluginWeight(made, weights[name]))
        if len(self._errors) > before or len(plugins) < len(weights):
            return None
        try:
            return Profile(config.scheduler_name, plugins)
        except ProfileError as error:
            self._errors.append(f"{where}.plugins: {error}")
            return None

    def _weights(self, config: ProfileConfig, where: str) -> dict[str, int]:
        """Enabled plugin → weight."""
        weights: dict[str, int] = {}
        if "*" not in config.plugins.disabled:
            weights = {plugin.name: weight for plugin, weight in DEFAULT_PLUGINS}
        for n, name in enumerate(config.plugins.disabled):
            if name != "*":
                self._check_plugin_name(name, f"{where}.plugins.disabled.{n}")
            weights.pop(name, None)
        enabled_names = (enabled.name for enabled in config.plugins.enabled)
        self._check_once(enabled_names, f"{where}.plugins.enabled")
        for n, enabled in enumerate(config.plugins.enabled):
            self._check_plugin_name(enabled.name, f"{where}.plugins.enabled.{n}.name")
            weights[enabled.name] = enabled.weight or weights.get(enabled.name, 1)
        return weights

    def _arguments(
        self, config: ProfileConfig, weights: Mapping[str, int]
    ) -> dict[str, dict[str, Any]]:
        """Plugin → its arguments, with those that follow from other parts of the file."""
        arguments = {entry.name: entry.args for entry in config.plugin_config}
        if DefaultPreemption.name in weights:
            # By default only pods of our own schedulers are evicted.
            given = arguments.get(DefaultPreemption.name, {})
            ours = [profile.scheduler_name for profile in self._profiles]
            arguments[DefaultPreemption.name] = {"victimSchedulers": ours, **given}
        if self._ignored_resources and NodeResourcesFit.name in weights:
            given = arguments.get(NodeResourcesFit.name, {})
            named = given.get("ignoredResources", [])
            # Anything but a list is left to the plugin to refuse.
            both = [*named, *self._ignored_resources] if isinstance(named, list) else named
            arguments[NodeResourcesFit.name] = {**given, "ignoredResources": both}
        return arguments

    def _check_once(self, names: Iterable[str], where: str) -> None:
        """As kube-scheduler: of two that say otherwise nobody could tell which counts."""
        seen: set[str] = set()
        for n, name in enumerate(names):
            if name in seen:
                self._errors.append(f"{where}.{n}.name: {name!r} is named twice")
            seen.add(name)

    def _check_plugin_name(self, name: str, where: str) -> None:
        if self._all_loaded and name not in self._registry.names():
            self._errors.append(f"{where}: {self._registry.unknown_message(name)}")
