"""Answers made from forecasts: why something waits, what would help it, how much would fit."""
