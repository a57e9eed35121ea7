"""What is done in one step of an evaluation.

Upstream: ``interpreter/interpretable.go`` and ``interpreter/attributes.go`` of ``cel-go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from arranger.cel.errors import CelError, no_such_overload
from arranger.cel.machine import HALT, Label, Machine, Step
from arranger.cel.values import ABSENT, CelMap, Optional, Uint

# --- values ----------------------------------------------------------------------------------


def push(value: Any) -> Step:
    """A constant."""
    return lambda m: m.stack.append(value)


def load_variable(name: str, cost: int) -> Step:
    """A variable of the environment."""

    def step(m: Machine) -> None:
        m.cost += cost
        m.stack.append(m.variables[name])

    return step


def load_slot(slot: int, cost: int) -> Step:
    """What a loop goes through or has made so far."""

    def step(m: Machine) -> None:
        m.cost += cost
        m.stack.append(m.slots[slot])

    return step


def load_lazy(slot: int, start: Label, cost: int) -> Step:
    """What a name is bound to; it is evaluated first if it has not been."""

    def step(m: Machine) -> None:
        found = m.slots[slot]
        if found is ABSENT:
            m.calls.append(m.at - 1)
            m.at = start.at
            return
        m.cost += cost
        m.stack.append(found)

    return step


def forget(slot: int) -> Step:
    """A name is bound anew."""

    def step(m: Machine) -> None:
        m.slots[slot] = ABSENT

    return step


def keep(slot: int) -> Step:
    """A bound name has its value: back to who needed it."""

    def step(m: Machine) -> None:
        m.slots[slot] = m.stack.pop()
        m.at = m.calls.pop()

    return step


def make_list(optional: Sequence[bool]) -> Step:
    """A list of the values on the stack."""
    count = len(optional)

    def step(m: Machine) -> None:
        m.spend(10)
        given = m.stack[len(m.stack) - count :]
        del m.stack[len(m.stack) - count :]
        if True in optional:
            kept = []
            for value, may_miss in zip(given, optional, strict=True):
                if not may_miss:
                    kept.append(value)
                elif not isinstance(value, Optional):
                    why = "cannot initialize optional list element from non-optional value"
                    m.stack.append(CelError(why))
                    return
                elif value.is_present:
                    kept.append(value.value)
            given = kept
        m.stack.append(given)

    return step


def make_map(optional: Sequence[bool]) -> Step:
    """A map of the keys and values on the stack."""
    count = 2 * len(optional)

    def step(m: Machine) -> None:
        m.spend(30)
        given = m.stack[len(m.stack) - count :]
        del m.stack[len(m.stack) - count :]
        made = CelMap()
        for n, may_miss in enumerate(optional):
            key, value = given[2 * n : 2 * n + 2]
            if type(key) not in (str, int, Uint, bool, float):
                m.stack.append(CelError("unsupported key type"))
                return
            if may_miss:
                if not isinstance(value, Optional):
                    why = "cannot initialize optional entry from non-optional value"
                    m.stack.append(CelError(why))
                    return
                if not value.is_present:
                    made.discard(key)
                    continue
                value = value.value
            made.put(key, value)
        m.stack.append(made)

    return step


# --- ways ------------------------------------------------------------------------------------


def jump(to: Label) -> Step:
    """Go on elsewhere."""

    def step(m: Machine) -> None:
        m.at = to.at

    return step


def leave_on_error(below: int, to: Label) -> Step:
    """An error makes the rest needless: of what is being made, so many values are there."""

    def step(m: Machine) -> None:
        if type(m.stack[-1]) is CelError:
            error = m.stack.pop()
            del m.stack[len(m.stack) - below :]
            m.stack.append(error)
            m.at = to.at

    return step


def add_cost(cost: int) -> Step:
    """Something has been paid for."""

    def step(m: Machine) -> None:
        m.cost += cost

    return step


def leave_on(decisive: bool, to: Label) -> Step:
    """The first operand of ``||`` or ``&&`` may be all that is needed."""

    def step(m: Machine) -> None:
        if m.stack[-1] is decisive:
            m.at = to.at

    return step


def combine(decisive: bool) -> Step:
    """``||`` or ``&&`` of two values, of which the first was not decisive."""

    def step(m: Machine) -> None:
        second = m.stack.pop()
        if second is decisive:
            m.stack[-1] = decisive
            return
        first = m.stack[-1]
        for value in (first, second):
            if type(value) is not bool:
                m.stack[-1] = value if type(value) is CelError else no_such_overload()
                return
        m.stack[-1] = not decisive

    return step


def branch(otherwise: Label, end: Label) -> Step:
    """``?``: go on here if it is true."""

    def step(m: Machine) -> None:
        condition = m.stack.pop()
        if condition is True:
            return
        m.at = otherwise.at
        if condition is not False:
            m.stack.append(condition if type(condition) is CelError else no_such_overload())
            m.at = end.at

    return step


def leave_if_present(wrapped: bool, end: Label) -> Step:
    """``or`` and ``orValue``: the other value is needed if this one is absent."""

    def step(m: Machine) -> None:
        found = m.stack.pop()
        if type(found) is Optional and not found.is_present:
            return
        if type(found) is Optional:
            m.stack.append(found if wrapped else found.value)
        else:
            m.stack.append(found if type(found) is CelError else no_such_overload())
        m.at = end.at

    return step


# --- members ---------------------------------------------------------------------------------


def begin_members(end: Label) -> Step:
    """What members are taken of; above it, whether they may be absent."""

    def step(m: Machine) -> None:
        value = m.stack[-1]
        m.stack.append(False)
        if type(value) is CelError:
            m.at = end.at
        elif type(value) is Optional:
            if value.is_present:
                m.stack[-2:] = [value.value, True]
            else:
                m.at = end.at

    return step


def member(key: Any, optional: bool, is_test: bool, end: Label) -> Step:
    """A member of a name that is known."""
    return lambda m: _take_member(m, key, optional, is_test, end)


def computed_member(optional: bool, end: Label) -> Step:
    """A member of the name on the stack."""
    return lambda m: _take_member(m, m.stack.pop(), optional, False, end)


def _take_member(m: Machine, key: Any, optional: bool, is_test: bool, end: Label) -> None:
    optional = m.stack.pop() or optional
    of = m.stack.pop()
    found = key if type(key) is CelError else look_up(of, key)
    failed = type(found) is CelError
    if optional:
        if failed or found is ABSENT:
            m.stack += [found if failed else Optional(), False]
            m.at = end.at
            return
    elif is_test and not failed:
        found = found is not ABSENT
    elif found is ABSENT:
        what = "index out of bounds" if type(of) is list else "no such key"
        found, failed = CelError(f"{what}: {key}"), True
    m.cost += 1
    m.stack += [found, optional and not failed]
    if failed:
        m.at = end.at


def look_up(of: Any, key: Any) -> Any:
    """A member, :data:`ABSENT`, or an error."""
    if isinstance(of, CelMap):
        return of.find(key)
    if type(of) is not list:
        return ABSENT
    if type(key) not in (int, Uint, float) or key != int(key):
        return CelError(f"unsupported index type in list: {key}")
    return of[int(key)] if 0 <= key < len(of) else ABSENT


def end_members(cost: int, is_test: bool) -> Step:
    """The value that has been found."""

    def step(m: Machine) -> None:
        m.cost += cost
        optional = m.stack.pop()
        if optional:
            m.stack[-1] = Optional(m.stack[-1])
        if is_test and type(m.stack[-1]) is Optional:
            m.stack[-1] = m.stack[-1].is_present

    return step


# --- loops -----------------------------------------------------------------------------------


def begin_loop(slot: int, init: Any, names: int, end: Label) -> Step:
    """Go through the list or map on the stack."""

    def step(m: Machine) -> None:
        over = m.stack.pop()
        items: Iterator[tuple[Any, ...]]
        if type(over) is list:
            items = ((each,) for each in over) if names == 1 else enumerate(over)
        elif isinstance(over, CelMap):
            keys = list(over)
            items = ((k,) for k in keys) if names == 1 else ((k, over.find(k)) for k in keys)
        else:
            error = over if type(over) is CelError else CelError("expected iterable type")
            m.stack.append(error)
            m.at = end.at
            return
        m.loops.append(items)
        # Lists and maps grow where they are, so each loop begins with its own.
        m.slots[slot] = type(init)() if isinstance(init, list | CelMap) else init

    return step


def next_item(slot: int, result: Label) -> Step:
    """The next element, if there is one."""

    def step(m: Machine) -> None:
        item = next(m.loops[-1], None)
        if item is None:
            m.loops.pop()
            m.at = result.at
        else:
            m.slots[slot : slot + len(item)] = item

    return step


def leave_loop_unless(result: Label) -> Step:
    """Whether to go on is on the stack."""

    def step(m: Machine) -> None:
        if m.stack.pop() is False:
            m.loops.pop()
            m.at = result.at

    return step


def repeat(slot: int, start: Label) -> Step:
    """What a round has made is on the stack."""

    def step(m: Machine) -> None:
        m.slots[slot] = m.stack.pop()
        m.at = start.at

    return step


def halt(m: Machine) -> None:
    """The end."""
    m.at = HALT
