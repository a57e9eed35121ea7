"""The state a decision is made on: nodes as NumPy columns, and the pods on them."""
