"""The scheduling queue: what to try next, and what wakes the rest."""
