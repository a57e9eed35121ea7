"""Puts together what plans the starts of gangs."""

from __future__ import annotations

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.planning.promises import Promises
from arranger.engine.gang.planning.reservation_budget import ReservationBudget
from arranger.engine.gang.planning.room_search import RoomSearch
from arranger.engine.gang.planning.start_planner import StartPlanner
from arranger.engine.gang.planning.start_search import StartSearch
from arranger.engine.gang.planning.starving_gangs import StarvingGangs
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.queue.scheduling_queue import SchedulingQueue


def start_planner(
    context: EngineContext,
    queue: SchedulingQueue,
    room: PlannedRoom,
    entities: GangEntityIndex,
    search: RoomSearch,
    policy: GangPolicy,
    gang_objects: GangObjects,
) -> StartPlanner:
    """The planner of one engine."""
    promises = Promises(context, room.timeline, gang_objects, search)
    budget = ReservationBudget(policy)
    starts = StartSearch(context, queue, room, search, policy, budget, promises)
    starving = StarvingGangs(queue, room, entities, policy, budget)
    return StartPlanner(context, queue, room, entities, starts, policy, budget, promises, starving)
