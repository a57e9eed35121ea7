"""What becomes of an exception in a plugin: its name in the pod's events, never a crash."""

from __future__ import annotations

from arranger.cluster.attempt_work import UnfinishedError


class PluginFailureError(Exception):
    """A plugin raised; the text says which, where and what.

    Attributes:
        node: the name of a node about which it raised; "" where it was not about any.
        asks_again: whether it has only not come to an end yet.
    """

    def __init__(self, text: str, node: str = "", *, asks_again: bool = False) -> None:
        super().__init__(text)
        self.node = node
        self.asks_again = asks_again


def error_text(plugin: str, point: str, error: Exception) -> str:
    """The text about a plugin, by its name, that raised at an extension point."""
    return f'running {point} plugin "{plugin}": {type(error).__name__}: {error}'


class plugin_errors:  # noqa: N801 - a context manager, named like a function as in contextlib
    """Name the plugin in whatever the block raises.

    Raises:
        PluginFailureError: the block raised.
        UnfinishedError: the plugin has not come to an end.
    """

    __slots__ = ("_plugin", "_point")

    # A class, not a generator: this is entered several times for every placement.
    def __init__(self, plugin: str, point: str) -> None:
        self._plugin = plugin
        self._point = point

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, UnfinishedError):
            raise PluginFailureError(error_text(self._plugin, self._point, error)) from error
