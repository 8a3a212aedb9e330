"""Rules of a request: what they cost, and how they are bound to a run."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from leporid.errors import LeporidError, shortened
from leporid.ranking import BoundRules, Rules
from leporid.serve.loaded_run import LoadedRun
from leporid.serve.schemas import RequestError


def bind_cost(rules: Rules, n_items: int) -> int:
    """Estimate the work of binding rules, in units of 10 microseconds.

    It grows with the columns and the items; measured times are 0.1 to 4 times the estimate.
    """
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
    settings: Mapping[str, object] | None,
    run: LoadedRun,
    n: int,
    charge: Callable[[int], None],
) -> BoundRules | None:
    """Bind the rules of a request to a run, for lists of `n` items.

    `charge` is called with their work before it is done, and may refuse it.
    """
    if settings is None:
        return None
    with _as_request_errors():
        # The search for a similar setting is slow with a name of a megabyte, so names are cut.
        short = {name[:40]: value for name, value in settings.items()}
        rules = Rules.from_dict(short)
    charge(bind_cost(rules, len(run.ids)))
    with _as_request_errors():
        bound = await asyncio.to_thread(rules.bind, run.item_columns)
        bound.check_n(n)
    return bound


@contextmanager
def _as_request_errors() -> Iterator[None]:
    """Turn what is wrong with rules into a `RequestError`."""
    try:
        yield
    # A lone surrogate in an id is a UnicodeError.
    except (LeporidError, UnicodeError, RecursionError) as error:
        raise RequestError(f"rules: {shortened(error, 300)}") from error
