"""What talks to a Kubernetes API server and to extenders, on asyncio: reads, writes, the lease."""
