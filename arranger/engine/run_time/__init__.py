"""How long pods may run, and who ends those that run longer."""
