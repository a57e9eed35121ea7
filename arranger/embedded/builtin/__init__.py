"""What the API server knows of its built-in kinds."""
