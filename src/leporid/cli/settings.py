"""Settings on the command line: NAME=VALUE, as often as wanted."""

from __future__ import annotations

from typing import Any

from leporid.errors import ConfigError

__all__ = ["parse_settings"]


def parse_settings(pairs: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """NAME=VALUE with TOML values; a bare word is a string."""
    import tomllib

    parsed: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} takes NAME=VALUE, not {pair!r}")
        try:
            parsed[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key] = value
    return parsed
