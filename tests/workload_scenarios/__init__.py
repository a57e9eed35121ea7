"""What kube-controller-manager does in scenarios, recorded; hollow controllers must do the same.

``python -m tests.workload_scenarios.record`` plays every scenario on the real control plane and
writes ``recorded.json``; ``tests/unit/embedded/workloads`` plays them in the embedded cluster and
compares, and ``tests/controlplane/workloads`` compares the real one with what is recorded.
"""
