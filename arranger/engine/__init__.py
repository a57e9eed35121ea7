"""The scheduling queue, the cycle, and the life of a pod from observed to bound."""
