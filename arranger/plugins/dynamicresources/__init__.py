"""Dynamic resource allocation (``resource.k8s.io``)."""
