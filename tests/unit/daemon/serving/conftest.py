from __future__ import annotations

from tests.unit.kube.conftest import another_certificate, throwaway_certificate

__all__ = ["another_certificate", "throwaway_certificate"]
