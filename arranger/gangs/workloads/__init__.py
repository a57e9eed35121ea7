"""Pods that are gangs because of what owns them: PyTorchJobs, JobSets, RayClusters and others."""
