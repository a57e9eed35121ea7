"""What a command ends with when it cannot do what it was asked: one line, whatever went wrong."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from arranger.api.printable import one_line

#: The commands that run on; a defect in them ends the process with all that is known of it.
_DAEMONS: Final = ("run", "controllers")
#: Set it to see where a defect is.
_TRACEBACK: Final = "ARRANGER_TRACEBACK"


class CommandError(click.ClickException):
    """Why a command cannot be carried out."""

    def __init__(self, message: object) -> None:
        super().__init__(one_line(str(message)))


class CommandGroup(click.Group):
    """Commands whose errors are one line: about arguments, about files, and defects of ours."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click calls this."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = one_line(error.message)  # type: ignore[misc]  # of click's, not of its users
            raise
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        # Files are written by anybody, and no list of what they make us raise is whole.
        except Exception as error:
            if ctx.invoked_subcommand in _DAEMONS or os.environ.get(_TRACEBACK):
                raise
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            short = what if len(what) < 300 else f"{what[:300]}..."
            raise CommandError(
                f"this cannot be worked out: {short} ({_TRACEBACK}=1 shows where)"
            ) from None
