"""Reading what others have written: one bounded way for each form that a text can have.

Whatever a tenant or a server says is read here, or as a quantity by ``arranger.api.quantity``, and
nowhere else. What cannot be read is a :class:`~arranger.api.parsing.errors.ParseError`.
"""
