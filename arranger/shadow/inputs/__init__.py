"""What a forecast starts from: the objects of a cluster, read live or from files."""
