"""`Access`: who may read, who may write events, who may reload."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.exceptions import HTTPException

from leporid.errors import ConfigError

TOKEN = "LEPORID_TOKEN"
"""The environment variable with the token for reading and writing."""
ADMIN_TOKEN = "LEPORID_ADMIN_TOKEN"
"""The environment variable with the token for reloading."""

_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


class Access:
    """The tokens and what each of them opens; kept and compared as digests."""

    def __init__(
        self,
        token: str | None = None,
        admin_token: str | None = None,
        *,
        public_reading: bool = False,
        local: bool = False,
        origins: Iterable[str] = (),
    ) -> None:
        """None reads the environment; `local`: no other machine can reach the server."""
        self._token = _digest(token, TOKEN)
        self._admin = _digest(admin_token, ADMIN_TOKEN)
        self.reading_is_open = self._token is None or public_reading
        # Setting either token means that nothing is written without one.
        self._local = local and self._token is None and self._admin is None
        self.origins = frozenset(origins)
        for origin in self.origins - {"*"}:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"--cors {origin} is no origin: write it as a browser sends it, as in "
                    "https://films.example or http://localhost:3000, or * for all"
                )

    @property
    def writable(self) -> bool:
        """Whether anybody may write events."""
        return self._token is not None or self._local

    def sentence(self) -> str:
        """Who may do what, in one sentence."""
        reading = (
            "everyone who reaches the port"
            if self.reading_is_open
            else "with the token"
        )
        events = reload = "this machine, without a token"
        if not self._local:
            events = "with the token" if self._token else f"nobody ({TOKEN} is not set)"
            reload = (
                "with its token"
                if self._admin
                else f"nobody ({ADMIN_TOKEN} is not set)"
            )
        return f"reading: {reading}; sending events: {events}; reloading: {reload}"

    def may_read(self, authorization: bytes) -> bool:
        """Whether this header opens what is read; a browser sends the token as a password."""
        if self.reading_is_open:
            return True
        scheme, _, sent = authorization.partition(b" ")
        if scheme.lower() == b"basic":
            try:
                sent = base64.b64decode(sent).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return _is(sent, self._token) | _is(sent, self._admin)

    def check(self, scope: Mapping[str, Any], variable: str) -> None:
        """Refuse a request that may not write events (TOKEN), or not reload (ADMIN_TOKEN)."""
        headers = dict(scope["headers"])
        token = self._token if variable == TOKEN else self._admin
        if self._local:
            self._check_local(scope, headers)
        elif token is None:
            raise HTTPException(
                403, f"this server does not allow it: start it with {variable} set"
            )
        else:
            scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
            # No password of a browser: that would be sent for a page of another site as well.
            if not _is(sent, token) or scheme.lower() != b"bearer":
                text = "the bearer token is missing or wrong"
                raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})

    def may_write(self, scope: Mapping[str, Any]) -> bool:
        """Whether `check` lets this request write events."""
        try:
            self.check(scope, TOKEN)
        except HTTPException:
            return False
        return True

    def _check_local(
        self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]
    ) -> None:
        """Without a token: for this machine, but not for a page of another site in its browser."""
        if not is_loopback((scope.get("client") or ("",))[0]):
            raise HTTPException(
                403, f"only this machine may: start the server with {TOKEN} set"
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        own = origin.partition("://")[2] == headers.get(b"host", b"").decode("latin-1")
        if origin and not own and origin not in self.origins:
            raise HTTPException(
                403, f"pages of {origin!r} may not: start with --cors {origin}"
            )


def is_loopback(address: str) -> bool:
    """Whether only this machine has this address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _digest(token: str | None, variable: str) -> bytes | None:
    """SHA-256, so that neither a token nor its length shows in the time of a comparison."""
    token = os.environ.get(variable) if token is None else token
    if token is None:
        return None
    # An empty one is a mistake in a script, and would leave the server open.
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigError(
            f"{variable} must be printable ASCII without spaces, and not empty"
        )
    return hashlib.sha256(token.encode()).digest()


def _is(sent: bytes, token: bytes | None) -> bool:
    digest = hashlib.sha256(sent).digest()
    return token is not None and hmac.compare_digest(digest, token)
