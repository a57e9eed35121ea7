"""Where the members of a gang group are placed: domains, and the search for ways that fit."""
