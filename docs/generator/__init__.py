"""Writes the pages of ``docs/reference`` from the code: ``python -m docs.generator``.

Each page has a module with a function ``page()`` that returns its text.
``tests/project/docs`` fails when a page is not what its module returns.
"""
