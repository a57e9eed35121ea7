"""Whose pods may be evicted for whose, by what queues deserve and protect."""
