"""What the watches deliver, and how it changes the engine's state."""
