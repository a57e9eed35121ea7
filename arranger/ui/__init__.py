"""The pages of ``arranger ui``: the shadow's state and answers in a browser; nothing is written."""
