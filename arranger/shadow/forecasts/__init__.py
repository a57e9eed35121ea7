"""What would come of the objects, as they are or changed: the scheduler itself, fed with copies."""
