"""The rules of a request: what they cost, and how they are bound to a run."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leporid.errors import LeporidError, shortened
from leporid.ranking import BoundRules, Rules
from leporid.serve.loaded_run import LoadedRun
from leporid.serve.schemas import RequestError


def bind_cost(rules: Rules, n_items: int) -> int:
    """Work in units of 10 microseconds (measured: 0.1 to 4 times that): columns times items."""
    conditions = [*rules.only.values(), *rules.exclude.values()]
    columns = (
        len(conditions)
        + len(rules.boost)
        + len(rules.max_per)
        + len(rules.max_per_rarest)
    )
    listed = sum(len(values) for values in conditions if isinstance(values, list))
    return 20 + columns * (5 + n_items // 500) + listed // 10


async def bind_rules(
    asked: dict[str, Any] | None, run: LoadedRun, n: int, charge: Callable[[int], None]
) -> BoundRules | None:
    """The rules for lists of `n` items, once `charge` has let their work pass."""
    if asked is None:
        return None
    with _as_request_errors():
        # A name of a megabyte is unknown by its beginning, and is not searched for what is like it.
        rules = Rules.from_dict({name[:40]: value for name, value in asked.items()})
    charge(bind_cost(rules, len(run.ids)))
    with _as_request_errors():
        bound = await asyncio.to_thread(rules.bind, run.item_columns)
        bound.check_n(n)
    return bound


@contextmanager
def _as_request_errors() -> Iterator[None]:
    try:
        yield
    except (
        LeporidError,
        UnicodeError,
        RecursionError,
    ) as error:  # a lone surrogate is no id
        raise RequestError(f"rules: {shortened(error, 300)}") from error
