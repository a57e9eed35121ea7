"""What kube-controller-manager makes of Deployments, Jobs and their like in a real cluster."""
