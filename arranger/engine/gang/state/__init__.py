"""What is kept of each gang beside its pods: its holds, and what its object shows."""
