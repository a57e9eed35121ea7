"""The Kubernetes objects we read, one module an API group or kind."""
