"""What only kubectl asks for: discovery, tables and OpenAPI documents."""
