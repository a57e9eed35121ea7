"""The controller of ``Gang`` objects and of the status of PodGroups."""
