"""Coverage-guided fuzzing with atheris: ``make fuzz``, or one target by its name.

Each target gets an equal share of the runs, in a process of its own. What is found is written to
``build/fuzz/<target>/crash-…``; it becomes a named case in ``tests/fuzz/found.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.paths import REPO

#: Seconds that one input may take.
_TIMEOUT = 10
_MAX_LENGTH = 4096


def main() -> int:
    """Fuzz all targets, or one; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs, of all targets")
    parser.add_argument("--only", help="the name of a target")
    parser.add_argument("--folder", type=Path, default=REPO / "build" / "fuzz")
    options = parser.parse_args()
    if options.only:
        return _fuzz(options.only, options.runs, options.folder)
    from tests.fuzz.targets import TARGETS

    failed, runs = [], -(-options.runs // len(TARGETS))
    for name in TARGETS:
        sys.stdout.write(f"== {name}: {runs} inputs\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "tests.fuzz", "--only", name, "--runs", str(runs)]
        if subprocess.run([*command, "--folder", str(options.folder)], check=False).returncode:
            failed.append(name)
    sys.stdout.write(f"{', '.join(failed)}\n" if failed else "")
    sys.stdout.write(f"{len(TARGETS) - len(failed)} passed, {len(failed)} failed\n")
    return 1 if failed else 0


def _fuzz(name: str, runs: int, folder: Path) -> int:
    import atheris

    with atheris.instrument_imports(include=["arranger"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus, found = folder / name.replace(" ", "-") / "corpus", folder / name.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [f"-runs={runs}", f"-timeout={_TIMEOUT}", f"-max_len={_MAX_LENGTH}"]
    arguments += [f"-artifact_prefix={found}/", "-print_final_stats=1", "-verbosity=0"]

    def run(data: bytes) -> None:
        target.run(data)

    atheris.Setup([sys.argv[0], *arguments, str(corpus)], run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
