"""The configuration file, validated before anything starts."""
