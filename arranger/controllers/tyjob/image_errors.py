"""Whether a pod that cannot get an image may yet get it. Pure.

A kubelet tries to pull an image again and again, after 10 seconds at first and after 5 minutes in
the end, because a registry may be out of reach for a while. In between it says
``ImagePullBackOff``, after the first failure already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from arranger.api.timestamps import after
from arranger.api.types.tyjob import TYJobPod

#: Seconds that the image of a leader may be pulled in vain until its job is given up.
IMAGE_PATIENCE: Final = 600.0
#: Reasons of a container that waits for an image for which nobody tries again.
_HOPELESS: Final = frozenset({"InvalidImageName", "ErrImageNeverPull"})
#: Reasons of one that waits for the next try.
_TRIED_AGAIN: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ImageInspectError"}
    | {"RegistryUnavailable", "SignatureValidationFailed"}
)
#: Conditions with which scheduler and kubelet tell how far a pod has come.
_STEPS: Final = frozenset(
    {"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"}
)


@dataclass(frozen=True, slots=True)
class ImageError:
    """Why the image of a container cannot be had.

    Attributes:
        text: what the kubelet says.
        hopeless_at: from when on nobody hopes for it any more; None for: at once.
    """

    text: str
    hopeless_at: datetime | None = None


def image_error(pod: TYJobPod) -> ImageError | None:
    """Why an image of a pod cannot be had; None where no container says so."""
    found = None
    for status in pod.status.all_container_statuses:
        waiting = status.state.waiting
        if waiting is None:
            continue
        text = f"{waiting.reason}: {waiting.message}".removesuffix(": ")
        if waiting.reason in _HOPELESS:
            return ImageError(text)
        if waiting.reason in _TRIED_AGAIN and found is None:
            since = _last_step(pod)
            found = ImageError(text, None if since is None else after(since, IMAGE_PATIENCE))
    return found


def _last_step(pod: TYJobPod) -> datetime | None:
    """When a pod last got on: nobody writes down since when a container waits."""
    conditions = (c for c in pod.status.conditions if c.type in _STEPS)
    ends = (end for status in pod.status.all_container_statuses for end in status.ended)
    times = [pod.metadata.creation_timestamp, *(c.last_transition_time for c in conditions)]
    times += [end.finished_at for end in ends]
    return max((time for time in times if time is not None), default=None)
