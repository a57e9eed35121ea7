"""What pods are charged, and which limits of queues that concerns."""
