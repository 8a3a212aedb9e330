"""`Access`: who may read, who may write events, who may reload."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.types import Scope

from leporid.errors import ConfigError

TOKEN = "LEPORID_TOKEN"
"""Environment variable with the token for reading and for sending events."""
ADMIN_TOKEN = "LEPORID_ADMIN_TOKEN"
"""Environment variable with the token for reloading."""

_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


class Access:
    """The tokens of a server and what each of them allows; held and compared as digests."""

    def __init__(
        self,
        token: str | None = None,
        admin_token: str | None = None,
        *,
        public_reading: bool = False,
        local: bool = False,
        origins: Iterable[str] = (),
    ) -> None:
        """Set the tokens; None reads the environment.

        `local` means that no other machine can reach the server.
        """
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
        """Whether anybody may send events."""
        return self._token is not None or self._local

    def sentence(self) -> str:
        """Return who may do what, to print when the server starts."""
        if self.reading_is_open:
            reading = "Anyone who can reach this port can read."
        else:
            reading = "Reading needs the token."
        if self._local:
            return f"{reading} Only this machine can send events and reload (no token is set)."
        if self._token:
            sending = "Sending events needs the token."
        else:
            sending = f"Nobody can send events ({TOKEN} is not set)."
        if self._admin:
            reloading = "Reloading needs the admin token."
        else:
            reloading = f"Nobody can reload ({ADMIN_TOKEN} is not set)."
        return f"{reading} {sending} {reloading}"

    def may_read(self, authorization: bytes) -> bool:
        """Whether this `Authorization` header lets a client read.

        A browser sends the token as the password of basic authentication.
        """
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
        # Both are compared, so that the time does not show which one was sent.
        return _matches(sent, self._token) | _matches(sent, self._admin)

    def check(self, scope: Scope, variable: str) -> None:
        """Refuse a request that may not send events (TOKEN) or not reload (ADMIN_TOKEN)."""
        headers = dict(scope["headers"])
        if self._local:
            self._check_local(scope, headers)
            return
        token = self._token if variable == TOKEN else self._admin
        if token is None:
            raise HTTPException(
                403, f"this server does not allow it: start it with {variable} set"
            )
        scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
        # A browser would send a password for a page of another site as well.
        if not _matches(sent, token) or scheme.lower() != b"bearer":
            message = "the bearer token is missing or wrong"
            raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})

    def may_write(self, scope: Scope) -> bool:
        """Whether `check` lets this request send events."""
        try:
            self.check(scope, TOKEN)
        except HTTPException:
            return False
        return True

    def _check_local(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse other machines, and pages of other sites in a browser of this machine."""
        if not is_loopback((scope.get("client") or ("",))[0]):
            raise HTTPException(
                403, f"only this machine may: start the server with {TOKEN} set"
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1")
        is_our_page = origin.partition("://")[2] == host
        if origin and not is_our_page and origin not in self.origins:
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
    """Return the SHA-256 of a token, or of the environment variable if it is None.

    The time to compare digests shows neither a token nor its length.
    """
    token = os.environ.get(variable) if token is None else token
    if token is None:
        return None
    # An empty token is a mistake in a script, and would leave the server open.
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigError(
            f"{variable} must be printable ASCII without spaces, and not empty"
        )
    return hashlib.sha256(token.encode()).digest()


def _matches(sent: bytes, token: bytes | None) -> bool:
    """Whether a client sent the token with this digest."""
    digest = hashlib.sha256(sent).digest()
    return token is not None and hmac.compare_digest(digest, token)
