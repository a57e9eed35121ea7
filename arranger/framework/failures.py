"""What becomes of an exception in a plugin: its name in the pod's events, never a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from arranger.framework.plugin import Plugin


class PluginFailureError(Exception):
    """A plugin raised; the text says which, where and what."""


def failure(plugin: Plugin, point: str, error: Exception) -> str:
    """The text about a plugin that raised at an extension point."""
    return f'running {point} plugin "{plugin.name}": {type(error).__name__}: {error}'


@contextmanager
def running(plugin: Plugin, point: str) -> Iterator[None]:
    """Name the plugin in whatever the block raises.

    Raises:
        PluginFailureError: the block raised.
    """
    try:
        yield
    except Exception as error:
        raise PluginFailureError(failure(plugin, point, error)) from error
