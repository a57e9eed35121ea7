"""The scheduler's own core beside a cluster: it decides as the scheduler would, and never writes.

::

    shadow = Shadow.from_manifests(manifests, config)  # or: a LiveShadow's
    shadow.ask_now(Present()).nodes["default/web-0"]  # where it would go
    shadow.ask_now(Why("gang/mnist"))
    shadow.ask_now(WhatIf([cordon("gpu-3")]))
"""

from arranger.shadow.answers.questions import Why
from arranger.shadow.forecasts.comparison import Present, WhatIf
from arranger.shadow.forecasts.forecast import Forecast, forecast
from arranger.shadow.inputs.objects import ClusterObjects
from arranger.shadow.shadow import Shadow

__all__ = ["ClusterObjects", "Forecast", "Present", "Shadow", "WhatIf", "Why", "forecast"]
