"""The state a decision is made on: nodes as NumPy columns, pods, and transactions over them."""
