"""One pod through a scheduling cycle and a binding cycle."""
