"""What one request may ask for."""

from __future__ import annotations

import dataclasses

from leporid.config import Config
from leporid.errors import ConfigError

__all__ = ["ServeLimits"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeLimits(Config):
    """Bounds on requests; what goes beyond them is answered with 413, 422 or 503."""

    body_bytes: int = 1 << 20
    """Size of a request's body."""
    n: int = 200
    """Items recommended to one person, or listed at once."""
    people: int = 256
    """Users and histories in one request."""
    history_length: int = 1000
    """Items of one history; of a known user with new events, the last ones."""
    item_list: int = 20_000
    """Items in a list of candidates or of excluded items."""
    events: int = 1000
    """Events in one request."""
    id_length: int = 256
    """Characters of an id, and of a search."""
    batch: int = 64
    """People scored at once."""
    waiting: int = 4096
    """People that may wait for a score before requests are turned away."""
    two_stage: int = 200
    """Items DLR2's generative branch retrieves for the full ranking; 0 ranks all items."""

    def validate(self) -> None:
        """Refuse bounds that would refuse every request."""
        for field in dataclasses.fields(self):
            least = 0 if field.name == "two_stage" else 1
            if getattr(self, field.name) < least:
                raise ConfigError(
                    f"{field.name} must be at least {least}, not {getattr(self, field.name)}"
                )
