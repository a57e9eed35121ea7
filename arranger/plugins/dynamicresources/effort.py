"""What one look at the nodes may cost, counted so that it ends alike on every machine."""

from __future__ import annotations

from typing import Final, NoReturn

#: What a unit takes, about.
MICROSECONDS: Final = 2
#: Units that one attempt spends on looking for devices. What is
#: found out is kept, and the next attempt goes on where this one stopped.
MAX_EFFORT: Final = 40_000
#: The same where the attempt goes on in another step, and has placed others in this one.
MAX_EFFORT_OF_STEP: Final = 15_000
#: Units of a look at one node, of each alternative of a request for it, of compiling a selector,
#: and each token of it.
NODE: Final = 10
ALTERNATIVE: Final = 5
COMPILE: Final = 500
TOKEN: Final = 10
#: Units of beginning an evaluation.
EVALUATE: Final = 15
#: Units of reading all that a device has, or all of its attributes or capacity.
DIGEST: Final = 12
#: How much of a selector's evaluation is done for one unit.
WORK_A_UNIT: Final = 4
#: What is done of an evaluation that is begun, however little is left: most are done with less.
LEAST_WORK: Final = 2_000


class EffortSpentError(Exception):
    """No units are left: it is not known what would be found."""


class Effort:
    """The units that are left.

    Attributes:
        left: how many; what was dearer than expected makes it less than none.
    """

    __slots__ = ("left",)

    def __init__(self, units: int = MAX_EFFORT) -> None:
        self.left = units

    def spend(self, units: int) -> None:
        """Take so many units; what they are for may be done once, however few were left.

        Raises:
            EffortSpentError: there were none left.
        """
        self.check()
        self.count(units)

    def check(self) -> None:
        """Go no further if nothing is left.

        Raises:
            EffortSpentError: there are no units left.
        """
        if self.left <= 0:
            raise EffortSpentError

    def give_up(self) -> NoReturn:
        """Something needs more than there is.

        Raises:
            EffortSpentError: always.
        """
        self.left = min(self.left, 0)
        raise EffortSpentError

    def count(self, units: int) -> None:
        """So many units have been spent."""
        self.left -= units
