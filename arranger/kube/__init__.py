"""The asyncio edge to a Kubernetes API server: transport, reflector, lease, events, effects."""
