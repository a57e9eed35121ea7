"""Which pods to evict so that another finds room, as kube-scheduler 1.36 does it.

See ``docs/design/preemption.md``.
"""
