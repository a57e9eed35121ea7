from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MAKE_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    " -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
)


@pytest.fixture
def throwaway_certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    return _make_certificate(tmp_path / "tls")


@pytest.fixture
def another_certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A second one, which those who trust the first do not know."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    return _make_certificate(tmp_path / "another")


def _make_certificate(stem: Path) -> tuple[Path, Path]:
    certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
    command = [*MAKE_CERTIFICATE.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
