"""The functions of expressions, by what they are about."""
