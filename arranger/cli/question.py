"""How ``why``, ``whatif`` and ``capacity`` ask a shadow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from arranger.cli.options import ShadowOptions
from arranger.cli.output.errors import CommandError
from arranger.cli.output.screen import say
from arranger.cli.shadow import SHADOW_ERRORS, Source, from_cluster, from_files
from arranger.daemon.config.schema import load_config
from arranger.daemon.telemetry.logging import configure_logging
from arranger.shadow.shadow import Question

T = TypeVar("T")


def ask(
    options: ShadowOptions,
    question: Callable[[Source], Question[T]],
    *,
    surroundings: bool = False,
) -> T:
    """Ask the shadow of a cluster, or of files if any are given; says what could not be read.

    Args:
        question: what to ask, once it is known what there is.

    Raises:
        CommandError: there is no answer.
    """
    configure_logging(level="CRITICAL")
    try:
        config = load_config(options.config_file)
        if options.snapshots:
            source = from_files(options.snapshots, config)
        else:
            reading = from_cluster(
                options.kubeconfig, options.context, config, surroundings=surroundings
            )
            source = asyncio.run(reading)
        answer = source.shadow.ask_now(question(source))
    except SHADOW_ERRORS as error:
        raise CommandError(error) from error
    for line in source.shadow.unread:
        say(f"not read: {line}", to_stderr=True)
    return answer
