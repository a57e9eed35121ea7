"""The nodes as columns, and what is counted over them."""
