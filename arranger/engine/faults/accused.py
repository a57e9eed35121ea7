"""Which pods an exception is about: those that the code was busy with when it was raised."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from arranger.api.quarantine import Quarantine, QuarantineKey, frames_of, key_of
from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.extenders.calls import ExtenderCall
from arranger.engine.gang.state.holds import GangHold
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from arranger.quota.ledger import QuotaLedger


def accused_pods(error: BaseException, is_known: Callable[[str], bool]) -> set[str]:
    """The uids of the known pods in the innermost frame that has any, in its arguments first.

    An event of one object makes us look at others, and a pod that is tried is held against others:
    the one that is being tried, or was edited, need not be the one that our code cannot take.
    """
    for each in frames_of(error):
        code, values = each.tb_frame.f_code, each.tb_frame.f_locals
        arguments = code.co_argcount + code.co_kwonlyargcount
        arguments += bool(code.co_flags & inspect.CO_VARARGS)
        names = code.co_varnames
        for part in (names[:arguments], names[arguments:]):
            for uids_in in (_uid_of, _uids_in):
                for name in part:
                    found = {uid for uid in uids_in(values.get(name)) if is_known(uid)}
                    if found:
                        return found
    return set()


def named_pods(
    error: BaseException,
    pods: Mapping[str, QueuedPod],
    ledger: QuotaLedger,
    gangs: Mapping[str, Gang],
) -> set[str]:
    """The uids of the waiting pods whose queue, or else whose gang, a frame names by a string.

    Where none of the gang waits they are those that it has on nodes.
    """
    return _pods_of_named_queue(error, pods, ledger) or _members_of_named_gang(error, pods, gangs)


def set_aside_in(error: BaseException, quarantine: Quarantine) -> QuarantineKey | None:
    """The object that is set aside already and that a frame names (``namespace/name``).

    What is left of it in our books, as a time at which it is looked at, is about nobody else.
    """
    keys = {f"{key[1]}/{key[2]}": key for key in map(key_of, (each.about for each in quarantine))}
    return next((found for text in _names_in(error) if (found := keys.get(text))), None)


def _pods_of_named_queue(
    error: BaseException, pods: Mapping[str, QueuedPod], ledger: QuotaLedger
) -> set[str]:
    """The uids of the pods whose queue is named in the innermost frame that names any.

    A queue that is gone, or set aside, has a place in the order of the queues all the same.
    """
    queues: dict[str, set[str]] = {}
    for uid, member in pods.items():
        queues.setdefault(ledger.stated_queue(member.pod), set()).add(uid)
    for each in frames_of(error):
        values = each.tb_frame.f_locals.values()
        texts = [value if type(value) is tuple else (value,) for value in values]
        found = [text for each in texts for text in each if type(text) is str and text in queues]
        if found:
            return queues[found[0]]
    return set()


def _members_of_named_gang(
    error: BaseException, pods: Mapping[str, QueuedPod], gangs: Mapping[str, Gang]
) -> set[str]:
    for text in _names_in(error):
        if (gang := gangs.get(text)) is not None:
            return gang.memberships.keys() & pods.keys() or set(gang.memberships)
    return set()


def _names_in(error: BaseException) -> Iterator[str]:
    """The strings in the frames, the innermost first; of the key of a gang's entity its name."""
    for each in frames_of(error):
        for value in each.tb_frame.f_locals.values():
            for text in value[:8] if type(value) in (list, tuple) else (value,):
                if type(text) is str:
                    yield text.removeprefix("gang:")


def _uid_of(value: Any) -> Iterable[str]:
    """The uid of the pod that a value is or names."""
    match value:
        case str():
            return (value,)
        case QueuedPod() | PodInfo():
            return (value.uid,)
        case Pod():
            return (value.metadata.uid,)
        case tuple():
            return [uid for part in value[:8] if type(part) is not str for uid in _uid_of(part)]
        case _:
            return ()


def _uids_in(value: Any) -> Iterable[str]:
    """The uids of the pods that a value has together."""
    match value:
        case QueuedEntity():
            return value.members
        case GangHold():
            return {**value.members, **value.entity.members}
        case ExtenderCall():
            return value.entity.members
        case Gang():
            return value.memberships
        case GangGroup():
            return [uid for gang in value.gangs for uid in gang.memberships]
        case tuple():
            return [uid for part in value[:8] for uid in _uids_in(part)]
        case _:
            return ()
