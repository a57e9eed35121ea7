"""When gangs start that have waited long, and what is kept for them until then."""
