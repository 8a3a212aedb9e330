"""A service of a model with a goal: viewed items are shown, bought and disliked ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.serve import Event, open_store
from leporid.serve.service import Service, UserQuery
from tests.data.event_log import WEIGHTS, frame, rows


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_hide_what_the_model_hides(tmp_path: Path, exclude_seen: bool) -> None:
    how: Any = {"event": "kind", "weights": WEIGHTS, "goal": "purchase"}
    split = leporid.temporal_split(leporid.load(frame(rows()), **how, progress=False))
    model = leporid.train("ease", split, progress=False)
    model.save(tmp_path / "model")
    store = open_store(tmp_path / "events.db")
    known = split.train_valid
    views = ~known.goals.csr().toarray().astype(bool) & known.csr().toarray().astype(bool)
    stored = int(views[3].argmax())  # viewed before, and now in the store
    item = str(split.items.external(stored))
    store.add([Event(str(split.users.external(3)), item, 1)])
    service = Service(tmp_path / "model", store=store)
    try:
        run, n = service.runs["main"], split.n_items
        names = [str(split.users.external(user)) for user in range(split.n_users)]
        queries = [UserQuery(run, n=n, user=name, exclude_seen=exclude_seen) for name in names]
        for user, answer in enumerate(service.rank(queries)):
            assert isinstance(answer, dict)
            hidden = set(known.hidden(not exclude_seen).of(user).tolist())
            hidden |= {stored} if user == 3 and exclude_seen else set()
            found = {split.items.index(entry["id"]) for entry in answer["items"]}
            assert found == set(range(n)) - hidden
    finally:
        service.close()
