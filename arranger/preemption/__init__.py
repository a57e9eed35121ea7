"""Which pods to evict so that another finds room (seed 001, kube-scheduler 1.36)."""
