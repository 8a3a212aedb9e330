"""To and from everyone else: file formats, torch modules, `implicit` models."""

from __future__ import annotations
