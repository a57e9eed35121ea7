"""List and watch: from the server's bytes to objects."""
