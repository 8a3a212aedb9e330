"""Schemas of requests and answers, and how much one request may ask for.

The OpenAPI document is generated from these classes.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from leporid.errors import LeporidError
from leporid.foundation import Config, setting
from leporid.ranking import Unknown

ID_LENGTH = 256
"""Most characters of an id."""
Id = StrictInt | Annotated[StrictStr, Field(max_length=ID_LENGTH)]
"""An external id; '42' finds 42 if the ids of the log are whole numbers.

The length also refuses a lone surrogate, which no database stores: measuring it encodes the text.
"""
RunName = Literal["main", "compare"]
Fallback = Literal["popular", "skipped"]
"""What somebody got of whom the model knows nothing."""

_MAX_ENTRIES = 100_000
"""Most entries of any list, whatever the limits are."""
_Entry = TypeVar("_Entry")
_Bounded = Annotated[list[_Entry], Field(max_length=_MAX_ENTRIES, fail_fast=True)]
"""A list whose check ends with the first error: a body of 1 MiB may hold 350,000 of them."""


@dataclass(frozen=True, kw_only=True)
class ServeLimits(Config):
    """Bounds on requests and connections; what goes beyond is answered with a 4xx or 503."""

    body_bytes: int = setting(1 << 20, at_least=1)
    """Size of a request's body."""
    n: int = setting(200, at_least=1)
    """Items recommended to one user, or listed at once."""
    users: int = setting(256, at_least=1, at_most=_MAX_ENTRIES)
    """Users and histories in one request."""
    history_length: int = setting(1000, at_least=1)
    """Items of one history; of a known user with new events, the last ones."""
    item_list: int = setting(20_000, at_least=1, at_most=_MAX_ENTRIES)
    """Items named in one request, in all its lists together."""
    events: int = setting(1000, at_least=1, at_most=_MAX_ENTRIES)
    """Events in one request."""
    cost: int = setting(60_000, at_least=1)
    """Work that one request may ask for: 20 + n per user, 4 per explained item."""
    batch: int = setting(64, at_least=1)
    """Users scored at once."""
    waiting: int = setting(400_000, at_least=1)
    """Work that may wait; beyond it requests are turned away with 503, large ones at half of it."""
    waiting_per_client: int = setting(200_000, at_least=1)
    """Work of one client's address that may wait; beyond it requests are refused with 429."""
    client_rate: int = setting(100_000, at_least=1)
    """Work per second of one address, with a body (1 per 10 bytes) and what is searched through."""
    client_burst: int = setting(200_000, at_least=1)
    """Work that one address may ask for at once; beyond it requests are turned away with 429."""
    connections: int = setting(500, at_least=1)
    """Connections held at once; on one more only /health is answered, the rest with 503."""
    connections_per_client: int = setting(100, at_least=1)
    """Connections of one address held at once; on one more all but /health get 429."""
    header_seconds: float = setting(10.0, above=0)
    """Until the headers of a request must be there; then the connection is closed."""
    body_seconds: float = setting(20.0, above=0)
    """Until the body of a request must be there; then the answer is 408."""
    keep_alive_seconds: int = setting(30, at_least=1)
    """An idle connection is closed after that; so is one whose client reads no answer."""
    shutdown_seconds: int = setting(5, at_least=1)
    """How long requests may take to end after SIGTERM."""
    two_stage: int = setting(200, at_least=0)
    """Items that a model's cheap first stage keeps for the full ranking; 0 ranks all items."""


class RequestError(LeporidError):
    """The request is readable, but asks for too much or for nothing."""


def check_limit(what: str, value: int, limit: int) -> None:
    """Raise a `RequestError` if a value exceeds its limit."""
    if value > limit:
        raise RequestError(f"{what}: {value} is more than this server allows ({limit})")


class _StrictRequest(BaseModel):
    """Base of requests: an unknown name is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_first_unknown(cls, sent: object) -> object:
        """Raise an error for the first unknown name.

        Without this, `extra` collects an error for each of 100,000 unknown names.
        """
        names = sent if isinstance(sent, dict) else ()
        for name in names:
            if name not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                raise PydanticCustomError("extra", f"{name[:40]!r} is none of {known}")
        return sent


class RecommendRequest(_StrictRequest):
    """Known users, or histories of new users (or both)."""

    users: _Bounded[Id] = Field(
        [], description="User ids, of the log or of sent events."
    )
    histories: _Bounded[_Bounded[Id]] = Field(
        [], description="Item ids in time order, one list each."
    )
    n: StrictInt = Field(10, ge=1, description="Length of each list.")
    exclude: _Bounded[Id] = Field([], description="Items not to recommend.")
    candidates: _Bounded[Id] | None = Field(
        None, description="The only items to rank [all]."
    )
    include_seen: StrictBool | None = Field(
        None, description="Also list what the user already has [as trained]."
    )
    exclude_seen: StrictBool | None = Field(
        None, description="The opposite of include_seen."
    )
    exclude_seen_by_other: StrictBool = Field(
        False, description="Leave out what the other served run knows of a user, too."
    )
    explain: StrictBool = Field(
        False, description="Name the items of the history that say why."
    )
    rules: dict[str, Any] | None = Field(
        None,
        description="only, exclude, max_per, diversity, boost, slots ...: leporid.Rules.",
    )
    run: RunName | None = Field(
        None, description="Which served run [main, or as --share divides]."
    )
    unknown: Unknown = Field(
        "popular",
        description="What unknown users, and histories without a known item, get: the most "
        "popular items, no list (skip), or the whole request an error.",
    )

    def check(self, limits: ServeLimits) -> None:
        """Refuse a request for nothing, or for too much."""
        if self.include_seen is not None and self.exclude_seen is not None:
            raise RequestError(
                "include_seen and exclude_seen say the same: give include_seen alone"
            )
        n_lists = len(self.users) + len(self.histories)
        if n_lists == 0:
            raise RequestError("give at least one user or one history")
        check_limit("users and histories", n_lists, limits.users)
        check_limit("n", self.n, limits.n)
        n_items = len(self.exclude) + len(self.candidates or ())
        for number, history in enumerate(self.histories):
            if not history and self.unknown == "error":
                raise RequestError(
                    f"history {number} is empty: give at least one item id"
                )
            check_limit(
                f"items in history {number}", len(history), limits.history_length
            )
            n_items += len(history)
        check_limit("items named in the request", n_items, limits.item_list)

    def shows_seen(self) -> bool | None:
        """Return `include_seen` by whichever of its two names was sent; None means as trained."""
        if self.exclude_seen is None:
            return self.include_seen
        return not self.exclude_seen


class Candidates(_StrictRequest):
    """Items to score for a user, or for the history of a new one."""

    user: Id | None = Field(
        None, description="A user id, of the log or of sent events."
    )
    history: _Bounded[Id] | None = Field(None, description="Item ids in time order.")
    items: _Bounded[Id] = Field(min_length=1, description="The items to score.")


class ScoreRequest(_StrictRequest):
    """Items that were found elsewhere, to be scored or ranked for each user."""

    candidates: _Bounded[Candidates] = Field(min_length=1)
    rank: StrictBool = Field(
        False, description="Best items first; else in the order of the request."
    )
    run: RunName = Field("main", description="Which served run.")
    unknown: Unknown = Field(
        "skip",
        description="What unknown users, and histories without a known item, get: no scores "
        "(skip), the number of interactions of each item (popular), or the whole request an "
        "error. An unknown item has no score, or is an error.",
    )

    def check(self, limits: ServeLimits) -> None:
        """Refuse a request for too much, or one that names nobody."""
        check_limit("candidates", len(self.candidates), limits.users)
        n_items = 0
        for number, entry in enumerate(self.candidates):
            if (entry.user is None) == (entry.history is None):
                raise RequestError(f"candidates {number}: give a user or a history")
            history = entry.history or []
            check_limit(
                f"items in history {number}", len(history), limits.history_length
            )
            n_items += len(history) + len(entry.items)
        check_limit("items named in the request", n_items, limits.item_list)


class EventIn(_StrictRequest):
    """One interaction."""

    user: Id
    item: Id
    time: Annotated[StrictInt, Field(ge=0, le=2**53)] | None = Field(
        None, description="Seconds since 1970; the server's clock where it is left out."
    )


class EventsRequest(_StrictRequest):
    """New interactions."""

    events: _Bounded[EventIn] = Field(min_length=1)

    def check(self, limits: ServeLimits) -> None:
        """Refuse too many events, and users that no store can keep."""
        check_limit("events", len(self.events), limits.events)
        for event in self.events:
            user = str(event.user)
            if not 0 < len(user) <= ID_LENGTH:
                raise RequestError(f"a user id has 1 to {ID_LENGTH} characters")
            if "\0" in user:
                raise RequestError(
                    "a user id must not contain NUL: no database would keep it"
                )


class Item(BaseModel):
    """An item with its title."""

    id: int | str
    title: str
    genres: list[str]
    picture: str = Field("", description="Its address; empty where it has none.")


class Reason(BaseModel):
    """An item of the history that speaks for the recommended one."""

    id: int | str
    title: str
    similarity: float | None = Field(
        None, description="Jaccard similarity of their users."
    )
    contribution: float | None = Field(
        None, description="Its part of the model's score."
    )


class Recommendation(Item):
    """A recommended item."""

    score: float
    because: list[Reason] | None = None


class UserResult(BaseModel):
    """The list of one user; shorter than n where fewer items remain."""

    user: int | str | None
    run: RunName = Field(description="The run that made the list.")
    folded_in: bool = Field(
        description="Embedded from a history rather than known to the model."
    )
    new_events: int
    unknown: list[int | str] = Field(
        description="Items of the history that the model does not know."
    )
    fallback: Fallback | None = Field(
        description="What was done for somebody of whom the model knows nothing: the items with "
        "most interactions, whose number is the score (popular), or no list (skipped); null "
        "where the model made the list."
    )
    items: list[Recommendation]
    reasons: str | None = Field(
        None, description="What `because` holds; null without `explain`."
    )


class RunInfo(BaseModel):
    """A served run."""

    name: RunName
    label: str
    model: str
    fitted: str = Field(
        description="What it was fitted on, and whether that is fit to deploy."
    )
    users: int
    items: int
    metrics: dict[str, float]
    loaded_at: float


class RecommendAnswer(BaseModel):
    """One result per user: the users in order, then the histories in order."""

    run: str = Field(description="The label of the run that answered, or of both.")
    impressions: int = Field(
        description="Lists of this answer that are on disk, under --share."
    )
    popular: int = Field(description="Lists of the most popular items among them.")
    skipped: int = Field(description="Users and histories without a list.")
    results: list[UserResult]


class ScoredItem(BaseModel):
    """An item with its score; null if the model does not know the item or the user."""

    id: int | str
    score: float | None


class ScoreResult(BaseModel):
    """The scores of one user or history."""

    user: int | str | None
    run: RunName
    folded_in: bool = Field(
        description="Embedded from a history rather than known to the model."
    )
    new_events: int
    unknown: list[int | str] = Field(
        description="Items of the history that the model does not know."
    )
    fallback: Fallback | None = Field(
        description="popular: the scores are numbers of interactions; skipped: there are none; "
        "null where the scores are the model's."
    )
    items: list[ScoredItem]


class ScoreAnswer(BaseModel):
    """One result per entry of `candidates`, in order."""

    run: str = Field(description="The label of the run that answered.")
    popular: int = Field(description="Results with the scores of popularity.")
    skipped: int = Field(description="Results without scores.")
    unknown_items: int = Field(description="Candidates that the model does not know.")
    results: list[ScoreResult]


class SimilarItem(Item):
    """A neighbour on the item graph."""

    similarity: float


class SimilarAnswer(BaseModel):
    """The neighbours of an item, nearest first."""

    item: Item
    similar: list[SimilarItem]


class ItemsAnswer(BaseModel):
    """Items found."""

    items: list[Item]


class UserAnswer(BaseModel):
    """What is known of a user; the newest 100 items, oldest first."""

    id: int | str
    known: bool = Field(description="Whether the model was trained with this user.")
    interactions: int
    new_events: int
    recent: list[Item]


class EventsAnswer(BaseModel):
    """How many events are on disk now."""

    stored: int


class ReloadAnswer(BaseModel):
    """The runs served from now on."""

    runs: list[RunInfo]


class Health(BaseModel):
    """Whether the server answers, and with what."""

    status: Literal["ok"]
    version: str
    writable: bool = Field(
        description="Whether events are accepted, from those who may."
    )
    runs: list[RunInfo]


class ErrorAnswer(BaseModel):
    """What went wrong, in one sentence."""

    error: str
