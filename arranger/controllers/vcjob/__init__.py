"""The controller of Volcano's Jobs (``batch.volcano.sh``)."""
