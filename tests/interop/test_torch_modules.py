"""`leporid.initialize`: vectors arrive in any torch module, or nothing changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leporid
from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings, standardize
from leporid.errors import ConfigError, DataError, LeporidError, UnknownIdError

DIM = 4


class TwoTower(nn.Module):
    """A plain module with every kind of table."""

    def __init__(self, users: int = 6, items: int = 5) -> None:
        super().__init__()
        self.user_embedding = nn.Embedding(users, DIM)
        self.item_embedding = nn.Embedding(items, DIM)
        self.bag = nn.EmbeddingBag(items, DIM, mode="sum")
        self.raw = nn.Parameter(torch.zeros(users, DIM))
        self.towers = nn.ModuleDict({"mlp": nn.Embedding(users, DIM)})
        self.padded = nn.Embedding(items + 1, DIM, padding_idx=0)
        self.codes = nn.Parameter(torch.zeros(users, DIM, dtype=torch.int32), requires_grad=False)

    def reset_parameters(self) -> None:
        """What a training loop may call before it starts."""
        for layer in (self.user_embedding, self.item_embedding):
            layer.reset_parameters()

    def forward(self, u: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (self.user_embedding(u) * self.item_embedding(i)).sum(-1)


def make(users: int = 6, items: int = 5, method: str | None = "leporid") -> InitialEmbeddings:
    """Vectors with ids 10, 20, ... and a, b, ..."""
    rng = np.random.default_rng(3)
    provenance = {"method": method} if method else {}
    return InitialEmbeddings(
        Embedding(rng.standard_normal((users, DIM)).astype(np.float32) + 2, None, provenance),
        Embedding(rng.standard_normal((items, DIM)).astype(np.float32) - 1, None, provenance),
        IdMap.from_values([10 * (u + 1) for u in range(users)], "user"),
        IdMap.from_values([chr(97 + i) for i in range(items)], "item"),
    )


def values(table: Any) -> np.ndarray[Any, Any]:
    """The numbers in a table now."""
    out: np.ndarray[Any, Any] = table.detach().float().numpy().copy()
    return out


def test_vectors_arrive_and_training_starts_from_them() -> None:
    model, made = TwoTower(), make()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model.reset_parameters()
    written = leporid.initialize(
        model, users="user_embedding", items="item_embedding.weight", embeddings=made, scale=0.5
    )
    assert written == {"user_embedding": 6, "item_embedding.weight": 5}
    start = standardize(made.users.vectors, 0.5)
    np.testing.assert_array_equal(values(model.user_embedding.weight), start)
    np.testing.assert_array_equal(
        values(model.item_embedding.weight), standardize(made.items.vectors, 0.5)
    )
    # One step of plain gradient descent from our vectors, computed by hand.
    items = values(model.item_embedding.weight)
    model(torch.tensor([2]), torch.tensor([3])).sum().backward()
    optimiser.step()
    expected = start.copy()
    expected[2] -= 0.1 * items[3]
    np.testing.assert_allclose(values(model.user_embedding.weight), expected, rtol=1e-6)


def test_several_tables_bags_parameters_and_nested_modules() -> None:
    model, made = TwoTower(), make()
    leporid.initialize(
        model,
        users=["user_embedding", "raw", "towers.mlp"],
        items=["item_embedding", "bag"],
        embeddings=made,
        standardize=False,
        freeze=True,
    )
    for table in (model.user_embedding.weight, model.raw, model.towers["mlp"].weight):
        np.testing.assert_array_equal(values(table), made.users.vectors)
        assert not table.requires_grad
    np.testing.assert_array_equal(values(model.bag.weight), made.items.vectors)
    assert model.padded.weight.requires_grad


def test_padding_row_is_kept_whether_named_or_known_to_the_table() -> None:
    made = make()
    for padding in (None, 0, {"items": 0}):
        model = TwoTower()
        leporid.initialize(
            model, items="padded", embeddings=made, padding_idx=padding, standardize=False
        )
        np.testing.assert_array_equal(values(model.padded.weight)[0], np.zeros(DIM))
        np.testing.assert_array_equal(values(model.padded.weight)[1:], made.items.vectors)
    model = TwoTower(items=7)
    before = values(model.item_embedding.weight)
    leporid.initialize(
        model, items="item_embedding", embeddings=made, padding_idx=[0, -1], standardize=False
    )
    after = values(model.item_embedding.weight)
    np.testing.assert_array_equal(after[[0, 6]], before[[0, 6]])
    np.testing.assert_array_equal(after[1:6], made.items.vectors)


@pytest.mark.parametrize("form", ["mapping", "list", "array"])
def test_rows_in_another_order(form: str) -> None:
    model, made = TwoTower(users=4, items=6), make()
    by_row = [40, 10, 60, 20]
    user_map: Any = by_row
    if form == "mapping":
        user_map = {"40": 0, 10: 1, 60: 2, 20: 3}
    elif form == "array":
        user_map = np.array(by_row)
    item_map = [None, "c", "a", "e", "b", "d"]
    leporid.initialize(
        model,
        users="user_embedding",
        items="item_embedding",
        embeddings=made,
        id_map={"users": user_map, "items": item_map},
        padding_idx={"items": 0},
        standardize=False,
    )
    np.testing.assert_array_equal(
        values(model.user_embedding.weight), made.users.vectors[[3, 0, 5, 1]]
    )
    np.testing.assert_array_equal(
        values(model.item_embedding.weight)[1:], made.items.vectors[[2, 0, 4, 1, 3]]
    )


def test_plain_matrices_files_and_dtypes(tmp_path: Path) -> None:
    made = make()
    model = TwoTower()
    leporid.initialize(model, users="user_embedding", embeddings=made.users.vectors)
    np.testing.assert_array_equal(values(model.user_embedding.weight), made.users.vectors)
    leporid.initialize(model, items="bag", embeddings=torch.from_numpy(made.items.vectors))
    np.testing.assert_array_equal(values(model.bag.weight), made.items.vectors)
    made.save(tmp_path / "e.safetensors")
    half = TwoTower().bfloat16()
    leporid.initialize(half, users="raw", embeddings=tmp_path / "e.safetensors", scale=None)
    expected = torch.from_numpy(standardize(made.users.vectors)).bfloat16().float().numpy()
    np.testing.assert_array_equal(values(half.raw), expected)


def test_auto_takes_the_size_of_the_table_but_no_row_longer_than_one() -> None:
    made = make()
    for drawn, size in ((0.037, 0.037), (3.0, DIM**-0.5), (0.0, DIM**-0.5)):
        model = TwoTower()
        with torch.no_grad():
            model.user_embedding.weight.copy_(torch.ones_like(model.user_embedding.weight) * drawn)
        leporid.initialize(model, users="user_embedding", embeddings=made)
        expected = standardize(made.users.vectors, size)
        np.testing.assert_allclose(values(model.user_embedding.weight), expected, rtol=1e-4)


def test_standardisation_follows_the_method_and_scale_can_match() -> None:
    model = TwoTower()
    random = make(method="random")
    leporid.initialize(model, users="raw", embeddings=random)
    np.testing.assert_array_equal(values(model.raw), random.users.vectors)
    made = make()
    leporid.initialize(model, users="raw", embeddings=made.standardized(0.2))
    np.testing.assert_allclose(values(model.raw).std(), 0.2, rtol=1e-5)
    with torch.no_grad():
        model.user_embedding.weight.mul_(0.037)
    spread = float(model.user_embedding.weight.detach().std())
    leporid.initialize(model, users="user_embedding", embeddings=made, scale="match")
    np.testing.assert_allclose(values(model.user_embedding.weight).std(), spread, rtol=1e-3)


def test_tables_can_be_given_as_objects() -> None:
    model, made = TwoTower(), make()
    written = leporid.initialize(
        model,
        users=[model.user_embedding, model.raw],
        items=model.item_embedding.weight,
        embeddings=made,
        standardize=False,
    )
    assert written == {"user_embedding": 6, "raw": 6, "item_embedding.weight": 5}
    np.testing.assert_array_equal(values(model.raw), made.users.vectors)
    np.testing.assert_array_equal(values(model.item_embedding.weight), made.items.vectors)
    for stranger in (TwoTower().user_embedding, model, 3, [None]):
        with pytest.raises(ConfigError, match="from elsewhere"):
            leporid.initialize(model, users=stranger, embeddings=made)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"tables inside it: towers\.mlp"):
        leporid.initialize(model, users=model.towers, embeddings=made)
    with pytest.raises(ConfigError, match=r"torch\.nn\.Module, not dict"):
        leporid.initialize({}, users="a", embeddings=made)  # type: ignore[arg-type]


def test_compiled_modules_are_filled_like_others() -> None:
    model, made = TwoTower(), make()
    compiled: Any = torch.compile(model)
    written = leporid.initialize(
        compiled,
        users="user_embedding",
        items=["_orig_mod.item_embedding", model.bag],
        embeddings=made,
        standardize=False,
    )
    assert written == {"user_embedding": 6, "item_embedding": 5, "bag": 5}
    np.testing.assert_array_equal(values(model.user_embedding.weight), made.users.vectors)
    model.padded = torch.compile(model.padded)
    leporid.initialize(model, items="padded", embeddings=made, standardize=False)
    inner: Any = model.padded
    np.testing.assert_array_equal(values(inner.weight)[0], np.zeros(DIM))
    np.testing.assert_array_equal(values(inner.weight)[1:], made.items.vectors)


def test_mistakes_are_named_and_nothing_is_written() -> None:
    made = make()
    wrong_dim = InitialEmbeddings(made.users, Embedding(np.zeros((5, 3), np.float32)))
    not_finite = InitialEmbeddings(made.users, Embedding(np.full((5, DIM), np.nan, np.float32)))
    cases: list[tuple[dict[str, Any], type[LeporidError], str]] = [
        ({"items": "item_embeding"}, LeporidError, "did you mean 'item_embedding'"),
        ({"items": "towers"}, ConfigError, r"tables inside it: towers\.mlp"),
        ({"items": "user_embedding.weight"}, ConfigError, "same parameter"),
        ({"items": "raw"}, DataError, "'raw' has 6 rows but there are 5 item vectors"),
        ({"items": "codes"}, DataError, "int32"),
        ({"items": "item_embedding", "embeddings": wrong_dim}, DataError, "has 4 columns"),
        ({"items": "item_embedding", "embeddings": not_finite}, DataError, "5 vectors .* NaN"),
        ({"items": "item_embedding", "embeddings": made.users}, ConfigError, "both"),
        ({"items": "item_embedding", "id_map": ["a"]}, ConfigError, "different ids"),
        (
            {"items": "item_embedding", "id_map": {"items": list("abcdz")}},
            UnknownIdError,
            "1 item ids of table 'item_embedding' have no vector: 'z'",
        ),
        (
            {"items": "item_embedding", "id_map": {"items": {"a": 0, "b": 0}}},
            DataError,
            "both 'a' and 'b' into row 0",
        ),
        (
            {"items": "item_embedding", "id_map": {"items": {"a": 0, "b": 1}}},
            DataError,
            "row 2 of table 'item_embedding' has no item id",
        ),
        ({"items": "item_embedding", "id_map": {"items": {"a": 9}}}, DataError, "row 9"),
        ({"items": "item_embedding", "padding_idx": 8}, ConfigError, "outside"),
        ({"items": "item_embedding", "scale": -1.0}, ConfigError, "positive"),
        ({"items": "item_embedding", "freeze": "bounded"}, ConfigError, "freeze must be True or"),
    ]
    for settings, error, words in cases:
        model = TwoTower()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        given = {"embeddings": made, "freeze": True, **settings}
        with pytest.raises(error, match=words):
            leporid.initialize(model, users="user_embedding", **given)
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), f"{key} changed by {settings}"
        assert model.user_embedding.weight.requires_grad
    with pytest.raises(ConfigError, match="at least one table"):
        leporid.initialize(TwoTower(), embeddings=made)


def test_a_table_that_would_cut_the_vectors_is_refused() -> None:
    model = nn.Sequential(nn.Embedding(5, DIM, max_norm=0.5))
    with pytest.raises(DataError, match="max_norm"):
        leporid.initialize(model, items="0", embeddings=make())
    leporid.initialize(model, items="0", embeddings=make(), scale=0.01)
    start = values(model[0].weight)
    model(torch.arange(5))
    np.testing.assert_array_equal(values(model[0].weight), start)


def test_tables_without_values_are_refused() -> None:
    meta = nn.Embedding(5, DIM, device="meta")
    with pytest.raises(DataError, match="no values yet"):
        leporid.initialize(nn.ModuleDict({"e": meta}), items="e", embeddings=make())
