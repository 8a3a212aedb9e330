"""Peers that need an environment of their own, and the scripts that run inside it."""
