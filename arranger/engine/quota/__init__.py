"""Queues in the engine: who may enter, what their time limits end, and the use that is kept."""
