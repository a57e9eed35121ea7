"""What all controllers stand on: a work queue, a writer, Events, conditions and merge patches."""
