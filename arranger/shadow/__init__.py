"""The scheduler's own core beside a cluster: it decides as the scheduler would, and never writes.

::

    objects = ClusterObjects.from_manifests(manifests)  # or: await list_objects(…)
    told = forecast(objects, config, now=datetime.now(UTC))
    told.nodes["default/web-0"]  # where it would go
"""

from arranger.shadow.forecast import Forecast, forecast
from arranger.shadow.objects import ClusterObjects

__all__ = ["ClusterObjects", "Forecast", "forecast"]
