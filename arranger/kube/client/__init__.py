"""Connections to the API server: configuration, credentials and transports."""
