"""The parts of an engine, made and joined: what is known, pods, gangs, what drives them, events."""
