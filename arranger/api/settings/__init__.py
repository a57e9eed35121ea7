"""What pods, gangs, queues and Reservations set that Kubernetes has no fields for, as types."""
