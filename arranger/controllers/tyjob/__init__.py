"""The controller of TYJobs."""
