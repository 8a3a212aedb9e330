"""What requests and answers look like; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

__all__ = [
    "EventIn",
    "EventsAnswer",
    "EventsRequest",
    "Health",
    "Item",
    "ItemsAnswer",
    "MapAnswer",
    "Problem",
    "Reason",
    "RecommendAnswer",
    "RecommendRequest",
    "Recommendation",
    "ReloadAnswer",
    "Result",
    "RunInfo",
    "RunName",
    "SimilarAnswer",
    "UserAnswer",
]

Id = StrictInt | StrictStr
"""'42' finds 42 where the ids of the log are whole numbers."""
RunName = Literal["main", "compare"]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RecommendRequest(_In):
    """Known users, or histories of people never seen (or both)."""

    users: list[Id] = Field(default=[], description="User ids, of the log or of sent events.")
    histories: list[list[Id]] = Field(
        default=[], description="Item ids in the order of time, one list a person."
    )
    n: StrictInt = Field(default=10, ge=1, description="Length of each list.")
    exclude: list[Id] = Field(default=[], description="Items nobody should get.")
    candidates: list[Id] | None = Field(
        default=None, description="The only items to rank; all where it is left out."
    )
    exclude_seen: StrictBool = Field(
        default=True, description="Leave out what a person has already."
    )
    explain: StrictBool = Field(
        default=False, description="Say which items of the history are nearest on the item graph."
    )
    run: RunName = Field(default="main", description="Which of the two served runs.")


class EventIn(_In):
    """One interaction."""

    user: Id
    item: Id
    time: Annotated[StrictInt, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="Seconds since 1970; the server's clock where it is left out."
    )


class EventsRequest(_In):
    """New interactions."""

    events: list[EventIn] = Field(min_length=1)


class Item(BaseModel):
    """An item and what people call it."""

    id: int | str
    title: str
    genres: list[str]


class Reason(BaseModel):
    """An item of the history joined to the recommended one on the item graph."""

    id: int | str
    title: str
    similarity: float = Field(description="Jaccard similarity of the two sets of users.")


class Recommendation(Item):
    """A recommended item."""

    score: float
    because: list[Reason] | None = None


class Result(BaseModel):
    """The list of one person; shorter than n where fewer items remain."""

    user: int | str | None
    folded_in: bool = Field(description="Placed from a history rather than known to the model.")
    new_events: int
    items: list[Recommendation]


class RunInfo(BaseModel):
    """A served run."""

    name: RunName
    label: str
    model: str
    users: int
    items: int
    metrics: dict[str, float]
    loaded_at: float


class RecommendAnswer(BaseModel):
    """One result a person: the users in order, then the histories in order."""

    run: str
    results: list[Result]


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
    writable: bool = Field(description="Whether events are accepted (with the token).")
    runs: list[RunInfo]


class MapAnswer(BaseModel):
    """The embedding map: one entry an item in every list."""

    ids: list[int | str]
    titles: list[str]
    x: list[float]
    y: list[float]
    genres: list[str] = Field(description="Names of the genre colours.")
    genre: list[int]
    cluster: list[int]


class Problem(BaseModel):
    """What went wrong, in words."""

    error: str
