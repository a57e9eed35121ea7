"""The ``arranger`` command, also installed as ``kubectl-arranger``."""
