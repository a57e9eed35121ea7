"""Plugins that judge nodes by a pod's volumes."""
