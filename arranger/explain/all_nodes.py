"""What is found out about a pod on all nodes, where that takes more than one attempt."""

from __future__ import annotations

import sys
from collections.abc import Callable

from arranger.cluster.attempt_work import AttemptWork
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError


def on_all_nodes(
    work: AttemptWork, evaluate: Callable[[], Evaluation], attempts: int
) -> Evaluation:
    """Evaluate a pod in so many ``attempts``: what one leaves undone the next goes on with.

    Raises:
        PluginFailureError: a plugin raised, or no attempt has come to an end (``asks_again``).
    """
    while True:
        attempts -= 1
        try:
            # What may be put off is asked about all nodes, and not only until some are found.
            with work.at_most(sys.maxsize):
                return evaluate()
        except PluginFailureError as failure:
            if not failure.asks_again or attempts <= 0:
                raise
