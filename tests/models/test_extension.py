"""`grow`: new rows are placed among the trained ones, and everything else keeps every bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leporid import models
from leporid.data import IdMap, Interactions, synthesize
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.models import Recommender, everything, train

NEURAL = [name for name in models.available() if models.get(name).takes_initial_vectors]
N_USERS, N_ITEMS, NEW = 40, 31, [14, 38]
"""Items 10, 12 ... 70; two ids between them are new."""


def log(users: IdMap | None = None) -> Interactions:
    """Two communities of users and items."""
    rng = np.random.default_rng(3)
    own = np.arange(N_USERS)[:, None] % 2 == np.arange(N_ITEMS)[None, :] % 2
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < np.where(own, 0.5, 0.03))
    ids = [i for i in range(10, 200, 2) if i not in NEW][:N_ITEMS]
    return Interactions.from_arrays(
        user, item, rng.permutation(len(user)),
        IdMap.from_values([f"u{n:02d}" for n in range(N_USERS)], "user"),
        IdMap.from_values(ids, "item"),
    )  # fmt: skip


def table(data: Interactions) -> dict[str, Any]:
    """Old and new items: the community is the genre; 14 is of the first, 38 of the second."""
    ids = data.items.ids.to_pylist()
    return {
        "item_id": [*ids, *NEW],
        "genres": [[f"g{n % 2}", f"s{n % 5}"] for n in range(len(ids))] + [["g0"], ["g1"]],
    }


def fitted(name: str = "bpr", **settings: Any) -> Any:
    if name == "sasrec":
        settings = {"max_history": 20, "layers": 1, "batch_size": 32, **settings}
    settings = {"dim": 8, "steps": 40, "eval_every": 0, "recipe": None, "lr": 0.02, **settings}
    return train(name, everything(log()), None, seed=1, device="cpu", progress=False, **settings)


@pytest.mark.parametrize("name", NEURAL)
def test_old_rows_and_weights_keep_every_bit(name: str, tmp_path: Path) -> None:
    model = fitted(name, steps=3)
    extended = model.extend(
        table(model.known),
        {"user_id": ["new", "new", "u03"], "item_id": [14, 10, 38], "time": [9000, 9001, 9002]},
    )
    assert (len(extended.users), len(extended.items)) == (N_USERS + 1, N_ITEMS + 2)
    ranks = {len(ids): extended.users.encode(ids.ids) for ids in [model.users]}
    ranks |= {len(ids): extended.items.encode(ids.ids) for ids in [model.items]}
    after = extended.net.state_dict()
    for key, before in model.net.state_dict().items():
        same = after[key]
        if before.shape != same.shape:
            same = same[torch.tensor(ranks[len(before)]).long()]
        assert torch.equal(before, same), key
    everyone = np.arange(N_USERS + 1, dtype=np.int32)
    scores = extended.score(everyone)
    assert scores.shape == (N_USERS + 1, N_ITEMS + 2)
    assert np.isfinite(scores).all()
    again = Recommender.load(extended.save(tmp_path / "extended"))
    np.testing.assert_allclose(again.score(everyone), scores, atol=1e-5)


@pytest.mark.parametrize("name", ["bpr", "sasrec"])
def test_new_items_find_the_users_of_their_genre(name: str) -> None:
    model = fitted(name, steps=80)
    extended = model.extend(table(model.known))
    columns = [extended.items.index(item) for item in NEW]
    scores = extended.score(np.arange(N_USERS, dtype=np.int32))[:, columns]
    mean = np.array([scores[parity::2].mean(axis=0) for parity in (0, 1)])
    assert mean.argmax(axis=0).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["bpr", "sasrec"])
def test_new_items_get_their_share_of_the_first_ranks(name: str) -> None:
    data = synthesize(60, 150, 1200, seed=4)
    how: dict[str, Any] = {"max_history": 20, "layers": 1} if name == "sasrec" else {}
    how |= {"dim": 8, "steps": 20, "eval_every": 0, "recipe": None, "lr": 0.02}
    model = train(name, everything(data), None, seed=1, device="cpu", progress=False, **how)
    ids = [*data.items.ids.to_pylist(), *range(1000, 1015)]
    about = {"item_id": ids, "genres": [[f"g{n % 7}", f"s{n % 5}"] for n in range(len(ids))]}
    first = {"user_id": list(range(40)), "item_id": [1000 + n % 15 for n in range(40)]}
    first["time"] = [10**9] * 40
    # Twenty steps of SASRec rank the same items for all: trained rows come in all at once.
    for share_of, steps in ((1.0, 0), (2.5, 0), *([(1.0, 40)] if name == "bpr" else [])):
        extended = model.extend(
            about, first if steps else None, cold_item_share=share_of, steps=steps
        )
        new = np.setdiff1d(np.arange(len(extended.items)), extended.items.encode(model.items.ids))
        top = extended.top_k(np.arange(60, dtype=np.int32), 10).items
        expected = share_of * 15 / len(extended.items)
        assert abs(np.isin(top, new).mean() - expected) < 0.2 * expected


def test_a_catalogue_of_mostly_new_items_gets_a_tenth_of_the_ranks() -> None:
    """As after `--core 5`, with the whole catalogue: nobody asked for so many of these items."""
    model = fitted()
    ids = [*model.items.ids.to_pylist(), *range(1000, 1000 + 2 * N_ITEMS)]
    about = {"item_id": ids, "genres": [[f"g{n % 2}", f"s{n % 5}"] for n in range(len(ids))]}
    with pytest.warns(LeporidWarning, match=r"^67% of the items are cold and get 10% of the ranks"):
        extended = model.extend(about)
    users = np.arange(N_USERS, dtype=np.int32)
    share = np.isin(extended.top_k(users, 10).items, extended.cold_items.items).mean()
    assert 0.05 < share <= 0.1 + 1 / (10 * N_USERS)  # a rank of rounding
    asked = model.extend(about, cold_item_share=1.0)
    assert np.isin(asked.top_k(users, 10).items, asked.cold_items.items).mean() > 0.3


def test_a_length_that_is_given_is_taken() -> None:
    model = fitted(steps=60)
    extended = model.extend(table(model.known), length=1.5)
    rows = np.linalg.norm(extended.net.items.weight.detach().numpy(), axis=1)
    usual = np.median(np.linalg.norm(model.net.items.weight.detach().numpy(), axis=1))
    new = [extended.items.index(item) for item in NEW]
    np.testing.assert_allclose(rows[new], 1.5 * usual, rtol=1e-5)


def test_shared_users_place_an_item_without_a_table() -> None:
    model = fitted(steps=150)
    even = [f"u{n:02d}" for n in range(0, 20, 2)]
    extended = model.extend(
        interactions={"user_id": even, "item_id": [14] * 10, "time": [9000] * 10}
    )
    scores = extended.score(np.arange(N_USERS, dtype=np.int32))[:, extended.items.index(14)]
    assert scores[20::2].mean() > scores[21::2].mean()
    assert extended.items.index(14) in extended.known.sequences().items


def test_steps_move_the_new_rows_alone() -> None:
    model = fitted("sasrec")
    news = {"user_id": ["u00", "u02", "u04"], "item_id": [14] * 3, "time": [9000] * 3}
    still = model.extend(table(model.known), news)
    moved = model.extend(table(model.known), news, steps=5)
    new = [still.items.index(item) for item in NEW]
    before, after = still.net.state_dict(), moved.net.state_dict()
    for key in before:
        changed = (before[key] != after[key]).reshape(len(before[key]), -1).any(dim=1)
        rows = set(changed.nonzero().ravel().tolist())
        assert rows <= (set(new) if key == "items.weight" else set())
    assert not torch.equal(before["items.weight"][new], after["items.weight"][new])
    assert moved.config == model.config
    assert all(parameter.requires_grad for parameter in moved.net.parameters())


def test_what_cannot_be_extended_is_said_in_a_sentence() -> None:
    model = fitted(steps=2)
    with pytest.raises(DataError, match="nothing is new"):
        model.extend({"item_id": [10, 12], "genres": [["a"], ["a"]]})
    with pytest.raises(DataError, match="names none of the model's 31 items"):
        model.extend({"item_id": [14], "genres": [["a"]]})
    ids = [str(item) for item in table(model.known)["item_id"][:-1]]
    with pytest.raises(DataError, match="whole numbers"):
        model.extend({**table(model.known), "item_id": [*ids, "x"]})
    with pytest.raises(DataError, match="have no times"):
        model.extend(interactions={"user_id": ["u00"], "item_id": [14]})
    with pytest.raises(ConfigError, match="steps need interactions"):
        model.extend(table(model.known), steps=3)
    lonely = table(model.known)
    lonely["genres"][-1] = ["nothing like it"]
    with pytest.warns(LeporidWarning) as caught:
        model.extend(lonely)
    assert "1 items without content" in str(caught[0].message)
    assert "1 new items share neither users nor content" in str(caught[1].message)


def test_steps_move_the_new_rows_of_a_network_with_single_numbers() -> None:
    """The temperature of DLR2's softmax is a tensor without rows."""
    model = fitted("dlr2", steps=2, objective="softmax", channels=4)
    news = {"user_id": ["u00", "u02", "u04"], "item_id": [14] * 3, "time": [9000] * 3}
    moved = model.extend(table(model.known), news, steps=2)
    for name in ("log_temperature", "discriminative.first.weight"):
        assert torch.equal(model.net.state_dict()[name], moved.net.state_dict()[name])
