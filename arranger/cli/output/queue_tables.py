"""What ``arranger queue`` prints on a terminal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from arranger.api.types.tyjob import DEFAULT_PRIORITY
from arranger.cli.output.screen import Screen, line, text
from arranger.cli.queues import QueueView, WaitingRow
from arranger.framework.diagnosis import filters_part
from arranger.quota.queue_spec import QueueQuota

_BAR: Final = 20
#: Columns of a terminal that leave a table's reasons room to be read.
_TABLE_WIDTH: Final = 120
#: What pods alone name is shown up to these numbers: queues that are not there, resources without a
#: limit, and what waits in a queue. ``-o json`` has all.
_MOST_QUEUES: Final = 20
_MOST_AMOUNTS: Final = 30
_MOST_WAITING: Final = 200
#: (percent of the limit in use, colour of the bar from there on).
_COLOURS: Final = ((100, "red"), (80, "yellow"), (0, "green"))


def print_queues(views: list[QueueView], screen: Screen, *, now: datetime) -> None:
    """Print the tree with a bar for each resource, then what waits, a table for each queue."""
    there = [view for view in views if view.state is not None]
    named = [view for view in views if view.state is None]
    hidden, views = len(named[_MOST_QUEUES:]), [*there, *named[:_MOST_QUEUES]]
    tree = Tree("queues")
    branches: dict[str, Tree] = {}
    for view in views:
        parent = view.state.parent if view.state is not None else ""
        branches[view.name] = branches.get(parent, tree).add(_branch(view))
    screen.print(tree if views else "no queues, and nothing waits")
    for view in views:
        if view.waiting:
            wide = screen.width >= _TABLE_WIDTH
            screen.print(_table(view, now) if wide else _list(view, now))
        if (more := len(view.waiting) - _MOST_WAITING) > 0:
            screen.print(line("queue ", text(view.name, "bold"), f": {more} more wait"))
    if hidden:
        screen.print(f"pods name {hidden} more queues that there are not")


def _branch(view: QueueView) -> Group:
    state = view.state or QueueQuota(view.name)
    facts = [f"priority {state.priority}", f"weight {state.weight}"]
    facts += [] if state.reclaimable else ["not reclaimable"]
    facts += [f"{n} {phase.lower()}" for phase, n in sorted(view.counts.items()) if n]
    grid = Table.grid(padding=(0, 1))
    rows = list(view.usage_rows())
    shown = [row for n, row in enumerate(rows) if n < _MOST_AMOUNTS or row[2] is not None]
    for name, used, limit, amounts in shown:
        grid.add_row(name, _bar(used, limit), amounts)
    if len(shown) < len(rows):
        grid.add_row(f"and {len(rows) - len(shown)} more", "", "")
    for what, amounts in view.shares():
        grid.add_row(what, "", amounts)
    for problem in view.problems:
        grid.add_row(text("invalid", "red"), "", problem)
    title = line(text(view.name, "bold"), f" {view.phase}, {', '.join(facts)}")
    return Group(title, grid) if grid.row_count else Group(title)


def _bar(used: int, limit: int | None) -> Text:
    if limit is None:
        return Text()
    percent = 100 * used // limit if limit else 100 * bool(used)
    full = min(_BAR, -(-_BAR * percent // 100))
    colour = next(colour for least, colour in _COLOURS if percent >= least)
    return line(text("█" * full, colour), "░" * (_BAR - full))


def _list(view: QueueView, now: datetime) -> Group:
    """What a narrow terminal shows in place of the table: the reasons on lines of their own."""
    lines: list[RenderableType] = [line("queue ", text(view.name, "bold"))]
    for each in view.waiting[:_MOST_WAITING]:
        age = _age(now - each.since) if each.since else ""
        pods = f"{each.pods} {'pod' if each.pods == 1 else 'pods'}"
        facts = [pods, f"priority {_priority(each)}", *([f"for {age}"] if age else [])]
        name = text(each.name, "bold")
        lines.append(line(f"{each.position}. ", name, f"  {', '.join(facts)}"))
        lines.append(Padding(text(each.reason), (0, 0, 0, 3)))
    return Group(*lines)


def _table(view: QueueView, now: datetime) -> Table:
    waiting, because = Column("waiting", overflow="fold"), Column("because", overflow="fold")
    table = Table("#", waiting, "pods", "priority", "for", because, title_justify="left")
    table.title = line("queue ", view.name)
    for each in view.waiting[:_MOST_WAITING]:
        table.add_row(
            str(each.position),
            each.name,
            str(each.pods),
            _priority(each),
            _age(now - each.since if each.since else None),
            filters_part(each.reason),
        )
    return table


def _priority(row: WaitingRow) -> str:
    """With that of the job, where it is not what all others have."""
    job = f" (job {row.job_priority})" if row.job_priority != DEFAULT_PRIORITY else ""
    return f"{row.priority}{job}"


def _age(age: timedelta | None) -> str:
    """As kubectl prints ages: in the largest unit of which there are two."""
    if age is None:
        return ""
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
