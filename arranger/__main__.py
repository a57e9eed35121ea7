"""``python -m arranger`` is ``arranger``."""

from __future__ import annotations

from arranger.cli.main import main

if __name__ == "__main__":
    main(prog_name="arranger")
