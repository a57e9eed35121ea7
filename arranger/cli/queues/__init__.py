"""The queues of a cluster: read from its API server, and arranged to be shown."""
