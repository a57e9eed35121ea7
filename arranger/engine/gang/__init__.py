"""Gang groups: placed, held and rolled back as a whole."""
