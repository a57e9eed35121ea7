"""A plan of the near future: when running pods end, and when what waits can start."""
