"""From trees to programs.

Upstream: ``interpreter/planner.go`` and ``interpreter/decorators.go`` of ``cel-go``, which also say
what is worked out beforehand and so costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from arranger.cel import steps
from arranger.cel.calls import call, call_function, compile_pattern
from arranger.cel.checker import TYPE_NAMES, Objects, check
from arranger.cel.costs import cost_of, cost_of_result
from arranger.cel.errors import CelError, CompileError, EvaluationError
from arranger.cel.machine import Label, Machine, Step
from arranger.cel.parser import parse
from arranger.cel.syntax import (
    ACCUMULATOR,
    Bind,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
)
from arranger.cel.types import Type
from arranger.cel.values import ABSENT, CelMap, TypeValue, Uint, key_of, kind_of

#: In place of a slot: the name is not one that the expression makes.
_NO_SLOT: Final = -1
_MEMBERS: Final = ("_[_]", "_[?_]", "_?._")
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_PATTERNS: Final = ("matches", "find", "findAll")


class Program:
    """A compiled expression, to be evaluated with ever other variables."""

    __slots__ = ("_slots", "_steps")

    def __init__(self, steps: Sequence[Step], slots: int) -> None:
        self._steps, self._slots = steps, slots

    def start(self, variables: Mapping[str, Any], limit: int) -> Machine:
        """An evaluation that may cost so much."""
        return Machine(self._steps, self._slots, variables, limit)


def compile_expression(
    expression: str,
    variables: Mapping[str, Type],
    objects: Objects,
    result: Sequence[str],
    *,
    bindings: bool = True,
) -> Program:
    """Read, check and compile an expression that gives a value of one of these types.

    Args:
        bindings: whether there is the macro ``cel.bind``.

    Raises:
        CompileError: it cannot be compiled.
    """
    tree = parse(expression, bindings=bindings)
    found = check(tree, variables, objects)
    if found.kind not in result:
        raise CompileError(f"must evaluate to {' or '.join(result)}, not {found}")
    return _Compiler().compile(tree)


def names_in(expression: str) -> set[str]:
    """The variables that an expression uses, those that it makes itself included.

    Raises:
        CompileError: it cannot be read.
    """
    found: set[str] = set()
    waiting: list[Any] = [parse(expression)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Ident):
            found.add(node.name)
        elif isinstance(node, Node):
            waiting += [getattr(node, name, None) for name in type(node).__slots__]
        elif isinstance(node, tuple):
            waiting += node
    return found


class _Compiler:
    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._slots = 0
        #: Names that the expression makes: their slots, and where they are evaluated if it is late.
        self._names: dict[str, tuple[int, Label | None]] = {}
        #: What is evaluated late, with the names that are known there.
        self._late: list[tuple[Node, int, Label, dict[str, tuple[int, Label | None]]]] = []
        self._constants: dict[int, Any] = {}

    def compile(self, tree: Node) -> Program:
        self._emit(tree)
        self._add(steps.halt)
        while self._late:
            init, slot, start, names = self._late.pop()
            self._names = names
            self._place(start)
            self._emit(init)
            self._add(steps.keep(slot))
        return Program(self._steps, self._slots)

    def _add(self, step: Step) -> None:
        self._steps.append(step)

    def _place(self, label: Label) -> None:
        label.at = len(self._steps)

    def _new_slots(self, count: int = 1) -> int:
        self._slots += count
        return self._slots - count

    # --- what is worked out beforehand -------------------------------------------------------

    def _constant(self, node: Node) -> Any:
        """The value of a part that depends on nothing, or :data:`ABSENT`."""
        if id(node) not in self._constants:
            self._constants[id(node)] = self._worked_out(node)
        return self._constants[id(node)]

    def _worked_out(self, node: Node) -> Any:
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Ident):
            known = node.name not in self._names and node.name in TYPE_NAMES
            return TypeValue(node.name) if known else ABSENT
        if isinstance(node, ListNode) and not any(node.optional):
            values = [self._constant(each) for each in node.elements]
            return ABSENT if any(each is ABSENT for each in values) else values
        if isinstance(node, MapNode):
            return self._constant_map(node)
        if isinstance(node, Call) and node.function in _CONVERSIONS and len(node.args) == 1:
            given = self._constant(node.args[0])
            made = ABSENT if given is ABSENT else call_function(node.function, [given])
            if type(made) is CelError:
                raise CompileError(f"program instantiation failed: {made.message}")
            return made
        if isinstance(node, Call) and node.overloads == ("in_list",):
            if self._constant(node.args[1]) != []:
                return ABSENT
            # What is looked for is never evaluated, but has to make sense.
            steps, late = len(self._steps), len(self._late)
            self._emit(node.args[0])
            del self._steps[steps:], self._late[late:]
            return False
        return ABSENT

    def _constant_map(self, node: MapNode) -> Any:
        made = CelMap()
        for key, value, optional in node.entries:
            known = self._constant(key), self._constant(value)
            if optional or known[0] is ABSENT or known[1] is ABSENT:
                return ABSENT
            if type(known[0]) not in (str, int, Uint, bool, float):
                return ABSENT
            made.put(*known)
        return made

    # --- everything else ---------------------------------------------------------------------

    def _emit(self, node: Node, *, counted: bool = True) -> None:
        """Steps that leave the value on the stack.

        Args:
            counted: whether the beginning of a chain of members costs something; it does not as
                the choice of ``?:``, or within ``[]``.
        """
        constant = self._constant(node)
        if constant is not ABSENT:
            self._add(steps.push(constant))
        elif isinstance(node, Ident):
            self._emit_name(node.name, int(counted))
        elif isinstance(node, Select) or (isinstance(node, Call) and node.function in _MEMBERS):
            self._emit_members(node, counted=counted)
        elif isinstance(node, Call):
            self._emit_call(node)
        elif isinstance(node, ListNode):
            self._emit_all(node.elements, steps.make_list(node.optional), failed=10)
        elif isinstance(node, MapNode):
            parts = [part for key, value, _ in node.entries for part in (key, value)]
            made = steps.make_map([optional for *_, optional in node.entries])
            self._emit_all(parts, made, failed=30)
        elif isinstance(node, Bind):
            self._emit_bind(node)
        elif isinstance(node, Fold):
            self._emit_fold(node)

    def _emit_name(self, name: str, cost: int) -> None:
        slot, start = self._names.get(name, (_NO_SLOT, None))
        if slot == _NO_SLOT:
            self._add(steps.load_variable(name, cost))
        elif start is not None:
            self._add(steps.load_lazy(slot, start, cost))
        else:
            self._add(steps.load_slot(slot, cost))

    def _emit_members(self, node: Node, *, counted: bool) -> None:
        chain: list[Select | Call] = []
        base = node
        while self._constant(base) is ABSENT:
            if isinstance(base, Select):
                chain.append(base)
                base = base.operand
            elif isinstance(base, Call) and base.function in _MEMBERS:
                chain.append(base)
                base = base.args[0]
            else:
                break
        is_choice = isinstance(base, Call) and base.function == "_?_:_"
        is_name = isinstance(base, Ident) and self._constant(base) is ABSENT
        self._emit(base, counted=not is_name)
        end = Label()
        self._add(steps.begin_members(end))
        is_test = isinstance(node, Select) and node.is_test
        for each in reversed(chain):
            self._emit_member(each, end)
        self._place(end)
        cost = int(counted and not is_choice) - int(counted and is_test)
        self._add(steps.end_members(cost, is_test))

    def _emit_member(self, node: Select | Call, end: Label) -> None:
        if isinstance(node, Select):
            self._add(steps.member(node.field, False, node.is_test, end))
            return
        optional = node.function != "_[_]"
        key = self._constant(node.args[1])
        if key is ABSENT:
            self._emit(node.args[1], counted=False)
            self._add(steps.computed_member(optional, end))
        elif type(key) in (str, int, Uint, bool, float):
            self._add(steps.member(key, optional, False, end))
        else:
            raise CompileError("program instantiation failed: invalid qualifier type")

    def _emit_all(self, parts: Sequence[Node], made: Step, *, failed: int) -> None:
        """All parts, then what is made of them; an error among them costs as much as that."""
        wrong, end = Label(), Label()
        for n, part in enumerate(parts):
            self._emit(part)
            self._add(steps.leave_on_error(n, wrong))
        self._add(made)
        self._add(steps.jump(end))
        self._place(wrong)
        self._add(steps.add_cost(failed))
        self._place(end)

    def _emit_call(self, node: Call) -> None:
        args = [*node.args] if node.target is None else [node.target, *node.args]
        match node.function:
            case "_||_" | "_&&_":
                self._emit_logic(node.function == "_||_", *args)
                return
            case "_?_:_":
                self._emit_choice(*args)
                return
            case "or" | "orValue":
                end = Label()
                self._emit(args[0])
                self._add(steps.leave_if_present(node.function == "or", end))
                self._emit(args[1])
                self._place(end)
                return
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if overload == "in_list" and self._emit_membership(args):
            return
        end = Label()
        one_by_one = len(args) > 2 or (
            len(args) == 2 and len(node.overloads) > 1 and not node.function.startswith("_")
        )
        if node.function in _PATTERNS and type(pattern := self._constant(args[1])) is str:
            compile_pattern(pattern)
            one_by_one = True
        for n, each in enumerate(args):
            self._emit(each)
            if one_by_one and n < len(args) - 1:
                self._add(steps.leave_on_error(n, end))
        grows = isinstance(args[0], Ident) and args[0].name == ACCUMULATOR if args else False
        cost = cost_of(node.function, overload)
        paid = cost_of_result(node.function, overload)
        self._add(call(node.function, len(args), cost, paid, in_place=grows))
        self._place(end)

    def _emit_membership(self, args: Sequence[Node]) -> bool:
        """``in`` a list of constants costs nothing; returns whether it is one."""
        given = self._constant(args[1])
        if given is ABSENT or any(type(e) not in (bool, int, Uint, float, str) for e in given):
            return False
        among = frozenset(map(key_of, given))

        def step(m: Machine) -> None:
            value = m.stack[-1]
            if type(value) is CelError:
                return
            if kind_of(value) == "kubernetes.Semver":
                raise EvaluationError("internal error: runtime error: hash of unhashable type")
            m.stack[-1] = key_of(value) in among if type(value) is not list else False

        self._emit(args[0])
        self._add(step)
        return True

    def _emit_logic(self, decisive: bool, first: Node, second: Node) -> None:
        end = Label()
        self._emit(first)
        self._add(steps.leave_on(decisive, end))
        self._emit(second)
        self._add(steps.combine(decisive))
        self._place(end)

    def _emit_choice(self, condition: Node, chosen: Node, other: Node) -> None:
        otherwise, end = Label(), Label()
        self._emit(condition)
        self._add(steps.branch(otherwise, end))
        self._emit(chosen, counted=False)
        self._add(steps.jump(end))
        self._place(otherwise)
        self._emit(other, counted=False)
        self._place(end)

    def _emit_bind(self, node: Bind) -> None:
        slot, start, before = self._new_slots(), Label(), self._names
        self._late.append((node.init, slot, start, before))
        self._add(steps.forget(slot))
        self._names = {**before, node.name: (slot, start)}
        self._emit(node.body)
        self._names = before

    def _emit_fold(self, node: Fold) -> None:
        start, result, end = Label(), Label(), Label()
        slot, before = self._new_slots(1 + len(node.names)), self._names
        self._emit(node.over)
        init = self._constant(node.init)
        self._add(steps.begin_loop(slot, init, len(node.names), end))
        inside = {**before, ACCUMULATOR: (slot, None)}
        own = {name: (slot + 1 + n, None) for n, name in enumerate(node.names)}
        self._names = {**inside, **own}
        self._place(start)
        self._add(steps.next_item(slot + 1, result))
        if node.condition is not None:
            self._emit(node.condition)
            self._add(steps.leave_loop_unless(result))
        self._emit(node.step)
        self._add(steps.repeat(slot, start))
        self._names = inside
        self._place(result)
        self._emit(node.result)
        self._names = before
        self._place(end)
