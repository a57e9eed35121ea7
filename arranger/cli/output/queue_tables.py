"""What ``arranger queue`` prints on a terminal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Column, Table
from rich.tree import Tree

from arranger.cli.queues import QueueView
from arranger.framework.diagnosis import filters_part
from arranger.quota.queue_spec import QueueQuota

_BAR: Final = 20
#: (percent of the limit in use, colour of the bar from there on).
_COLOURS: Final = ((100, "red"), (80, "yellow"), (0, "green"))


def print_queues(views: list[QueueView], console: Console, *, now: datetime) -> None:
    """Print the tree with a bar for each resource, then what waits, a table for each queue."""
    tree = Tree("queues")
    branches: dict[str, Tree] = {}
    for view in views:
        parent = view.state.parent if view.state is not None else ""
        branches[view.name] = branches.get(parent, tree).add(_branch(view))
    console.print(tree if views else "no queues, and nothing waits")
    for view in views:
        if view.waiting:
            console.print(_table(view, now))


def _branch(view: QueueView) -> Group:
    state = view.state or QueueQuota(view.name)
    facts = [f"priority {state.priority}", f"weight {state.weight}"]
    facts += [] if state.reclaimable else ["not reclaimable"]
    facts += [f"{n} {phase.lower()}" for phase, n in sorted(view.counts.items()) if n]
    grid = Table.grid(padding=(0, 1))
    for name, used, limit, text in view.usage_rows():
        grid.add_row(escape(name), _bar(used, limit), text)
    for problem in view.problems:
        grid.add_row("[red]invalid[/red]", "", escape(problem))
    title = f"[bold]{escape(view.name)}[/bold] {view.phase}, {', '.join(facts)}"
    return Group(title, grid) if grid.row_count else Group(title)


def _bar(used: int, limit: int | None) -> str:
    if limit is None:
        return ""
    percent = 100 * used // limit if limit else 100 * bool(used)
    full = min(_BAR, -(-_BAR * percent // 100))
    colour = next(colour for least, colour in _COLOURS if percent >= least)
    return f"[{colour}]{'█' * full}[/{colour}]{'░' * (_BAR - full)}"


def _table(view: QueueView, now: datetime) -> Table:
    # A narrow terminal breaks names and reasons, but cuts nothing off.
    waiting, because = Column("waiting", overflow="fold"), Column("because", overflow="fold")
    table = Table("#", waiting, "pods", "priority", "for", because, title_justify="left")
    table.title = f"queue {escape(view.name)}"
    for each in view.waiting:
        table.add_row(
            str(each.position),
            escape(each.name),
            str(each.pods),
            str(each.priority),
            _age(now - each.since if each.since else None),
            escape(filters_part(each.reason)),
        )
    return table


def _age(age: timedelta | None) -> str:
    """As kubectl prints ages: in the largest unit of which there are two."""
    if age is None:
        return ""
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
