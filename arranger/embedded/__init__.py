"""An in-process Kubernetes API server with hollow kubelets, for the demo, simulation and tests."""
