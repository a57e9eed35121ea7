"""Shows mutants of a copy of the checkout as diffs: ``python -m tests.mutants.diffs NAME…``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.mutants.names import module_of


def main() -> int:
    from mutmut.mutation.diff_apply import (  # type: ignore[import-not-found]  # only here
        get_diff_for_mutant,
    )

    def diff_of(name: str) -> str:
        path = Path(module_of(name).replace(".", "/") + ".py")
        shown: str = get_diff_for_mutant(name, path=path)
        return f"# {name}\n{shown}"

    sys.stdout.write(json.dumps({name: diff_of(name) for name in sys.argv[1:]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
