"""What an embedding looks like: numbers, pictures and one page."""

from __future__ import annotations
