"""What ``arranger why`` and ``arranger whatif`` print on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from arranger.api.resource_requests import format_resource_list
from arranger.cli.output.screen import Screen, line, text
from arranger.framework.diagnosis import filters_part
from arranger.shadow.answers.capacity import CapacityAnswer
from arranger.shadow.answers.why import Answer, QueuePlace, Suggestion
from arranger.shadow.forecasts.comparison import Difference, replacement_text

#: Pods that a list names before it only counts.
_NAMED: Final = 20
_COLOURS: Final = {"Running": "green", "Placeable": "green", "Ended": "dim", "Idle": "green"}


def print_answers(answers: Sequence[Answer]) -> None:
    """Print the answers: what is asked about, then the chain of causes, then what would help."""
    screen = Screen()
    for answer in answers:
        screen.print(line(text(answer.subject, "bold"), ": ", _state(answer)))
        # Why evictions do not help is a row of its own.
        reason = filters_part(answer.reason) if answer.preemption else answer.reason
        screen.print(Padding(text(reason), (0, 0, 0, 2)))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column()
        for name, what in _rows(answer):
            grid.add_row(name, what)
        if grid.row_count:
            screen.print(Padding(grid, (0, 0, 0, 2)))


def print_capacity(told: CapacityAnswer) -> None:
    """Print how many copies fit, what keeps the next one away, and which nodes would help."""
    screen = Screen()
    more = " or more" if told.at_most else ""
    screen.print(line("fit now: ", text(f"{told.copies}{more}", "bold")))
    for pod, why in list(told.blocked.items())[:1]:
        screen.print(Padding(text(f"the next one does not: {pod}: {why}"), (0, 0, 0, 2)))
    for each in told.nodes:
        count = "no number of" if each.count is None else each.count
        screen.print(line(f"for {told.wanted}: ", text(f"{count} more nodes like {each.like}")))


def _state(answer: Answer) -> Text:
    return text(answer.state, _COLOURS.get(answer.state, "bold yellow"))


def _rows(answer: Answer) -> Iterable[tuple[str, str]]:
    if answer.queue is not None:
        yield from _queue_rows(answer.queue)
    if (gang := answer.gang) is not None:
        missing = f", {gang.missing} more must come" if gang.missing else ""
        yield "gang", f"{gang.name}: {gang.arrived}{missing}"
        if gang.blocked_by:
            yield "held back by", ", ".join(gang.blocked_by)
    for n, (reason, count) in enumerate(answer.node_reasons):
        yield "nodes" if n == 0 else "", f"{count}  {reason}"
    for n, (node, lack) in enumerate(answer.nearest):
        yield "nearest" if n == 0 else "", f"{node} {lack}"
    if answer.never:
        yield "never", answer.never
    if answer.preemption:
        yield "preemption", answer.preemption
    if answer.evicted:
        yield "leave for it", _names(answer.evicted)
    if answer.wakes:
        yield "tried again", f"when {', or '.join(answer.wakes)}"
    for n, each in enumerate(answer.suggestions):
        yield "would help" if n == 0 else "", _suggestion(each)
    for n, change in enumerate(answer.not_tried):
        yield "not tried" if n == 0 else "", change


def _queue_rows(place: QueuePlace) -> Iterable[tuple[str, str]]:
    name = f"in queue {place.name}: " if place.name else ""
    turn = "first" if place.position == 1 else f"number {place.position}"
    after = f", after {_names(place.before)}" if place.before else ""
    yield "turn", f"{name}{turn} of {place.waiting} that wait{after}"
    for queue, limits in place.limits.items():
        full = ", ".join(f"{of} {_used(of, *amounts)}" for of, amounts in limits.items())
        yield "limits", f"queue {queue}: {full}"


def _used(resource: str, used: int, most: int) -> str:
    """``2/8``, ``1500m/4``, ``0/64Gi``, as people write amounts."""
    return "/".join(format_resource_list({resource: each})[resource] for each in (used, most))


def _suggestion(tried: Suggestion) -> str:
    nodes = sorted(set(tried.nodes.values()))
    where = f" → {_names(nodes)}" if nodes else ""
    count = len(tried.evicted)
    left = f" ({count} {'pod is' if count == 1 else 'pods are'} evicted)" if count else ""
    return f"{tried.change}{where}{left}"


def print_difference(told: Difference) -> None:
    """Print what changes would do."""
    screen = Screen()
    screen.print(text(f"with these changes: {'; '.join(told.changes)}", "bold"))
    moved = {key: f"{before} → {after}" for key, (before, after) in told.moved.items()}
    spared = dict.fromkeys(told.spared, "stays, and would have been evicted")
    gone = dict.fromkeys(told.gone, "is taken away by the change itself")
    evicted, gone = _with_replacements(told, told.evicted), _with_replacements(told, gone)
    parts: Sequence[tuple[str, str, Mapping[str, str]]] = (
        ("placed", "green", told.placed),
        ("placed elsewhere", "cyan", moved),
        ("evicted", "red", evicted),
        ("not evicted", "green", spared),
        ("gone", "dim", gone),
        ("would wait, and does not now", "red", told.waiting),
        ("still waits", "yellow", told.still_waiting),
    )
    for title, colour, pods in parts:
        if pods:
            screen.print(_part(title, colour, pods))
    if not any(pods for _, _, pods in parts[:-1]):
        screen.print("nothing changes for any pod")
    if told.unfinished:
        screen.print("broken off: pods evict each other without an end")


def _with_replacements(told: Difference, pods: Mapping[str, str]) -> dict[str, str]:
    """What becomes of pods, and of those that controllers make in their place."""
    return {key: f"{text}{replacement_text(told, key)}" for key, text in pods.items()}


def _part(title: str, colour: str, pods: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.title, table.title_justify = line(text(title, colour), f" ({len(pods)})"), "left"
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key in sorted(pods)[:_NAMED]:
        table.add_row(f"  {key}", pods[key])
    if len(pods) > _NAMED:
        table.add_row(f"  and {len(pods) - _NAMED} more", "")
    return table


def _names(names: Sequence[str]) -> str:
    few = ", ".join(names[:_NAMED])
    return few if len(names) <= _NAMED else f"{few} and {len(names) - _NAMED} more"
