"""An attempt to place a gang group: what it knows, its steps, and what it rests on between two."""
