"""The controller of the status of Queues."""
