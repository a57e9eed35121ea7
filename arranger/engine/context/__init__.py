"""What all parts of the engine share: pods and their entities, what is to be told, time."""
