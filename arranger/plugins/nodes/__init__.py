"""Plugins that judge a node by what it says of itself."""
