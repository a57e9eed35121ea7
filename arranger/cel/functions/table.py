"""How functions are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Gives a value, which may be an error.
Function = Callable[..., Any]
#: By name: for each overload the types it takes (``any`` for all), and what it does.
Table = Mapping[str, list[tuple[tuple[str, ...], Function]]]
