"""Health and metrics over HTTPS: connections, certificate, who may see what, and the answers."""
