"""A look into the running scheduler, on SIGUSR2.

kube-scheduler: ``backend/cache/debugger``.
"""

from __future__ import annotations

import structlog

from arranger.engine.engine import Engine

log = structlog.get_logger(__name__)


def dump(engine: Engine) -> bool:
    """Check the engine's invariants as the tests do, and log how many objects it holds.

    Stops the event loop for about a second per 50,000 pods. Returns whether all is in order.
    """
    summary = engine.summary()
    try:
        engine.check_consistent()
    except AssertionError as error:
        log.error("engine.inconsistent", broken=str(error), **summary)
        return False
    log.info("engine.consistent", **summary)
    return True
