"""Recommendations over HTTP, and the page that shows them: `create_app(run_dir)`."""

from __future__ import annotations

from leporid.errors import MissingExtraError

try:
    import fastapi as _fastapi
except ImportError as error:
    raise MissingExtraError("the service", "serve") from error

from leporid.serve.app import create_app
from leporid.serve.limits import ServeLimits
from leporid.serve.store import Event, EventStore, open_store

__all__ = ["Event", "EventStore", "ServeLimits", "create_app", "open_store"]

del _fastapi
