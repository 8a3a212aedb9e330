"""SASRec: causality, padding, every loss, and each block against a plain evaluation."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError
from leporid.models import GENERAL, Batch
from leporid.models.neural.sasrec import SASRec, SASRecConfig, to_front
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)
LENGTH = 6
BLOCKS = ("pre", "post", "ligr")


def fitted(**settings: Any) -> SASRec:
    settings = {"dim": DIM, "steps": 2, "heads": 2, "hidden": 5, "dropout": 0.0, **settings}
    model = SASRec(max_history=LENGTH, eval_every=0, batch_size=8, **settings)
    return model.fit(small_split(), init=initial_vectors(), device="cpu")


def states(model: SASRec, histories: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        rows, place, _ = to_front(histories)
        result: torch.Tensor = model.net(rows, place)
        return result


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("changed", range(LENGTH))
def test_a_later_item_never_changes_an_earlier_position(changed: int, block: str) -> None:
    model = fitted(block=block)
    before = torch.tensor([[3, 1, 4, 8, 5, 7]])
    after = before.clone()
    after[0, changed] = 2
    a, b = states(model, before)[0], states(model, after)[0]
    torch.testing.assert_close(a[:changed], b[:changed])
    assert ((a[changed:] - b[changed:]).abs().amax(dim=1) > 1e-6).all()


def test_padding_moves_to_the_back_and_the_newest_item_keeps_its_place() -> None:
    rows, place, count = to_front(torch.tensor([[-1, -1, 5, 2], [7, 0, 1, 3], [-1, -1, -1, -1]]))
    assert rows.tolist() == [[5, 2, -1, -1], [7, 0, 1, 3], [-1, -1, -1, -1]]
    assert place[0, :2].tolist() == [2, 3]
    assert count.tolist() == [2, 4, 0]


def attention(block: Any, x: torch.Tensor) -> torch.Tensor:
    """Two heads of width 2, a row at a time over what is not later."""
    query, key, value = block.query_key_value(x).split(DIM, dim=1)
    heads = []
    for head in (slice(0, 2), slice(2, 4)):
        logits = query[:, head] @ key[:, head].T / np.sqrt(2)
        logits[torch.ones(len(x), len(x)).triu(1) > 0] = -torch.inf
        heads.append(logits.softmax(dim=1) @ value[:, head])
    result: torch.Tensor = block.attention_output(torch.cat(heads, dim=1))
    return result


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_state_is_the_formula_with_a_causal_mask(kind: str, scaled: bool) -> None:
    """One block, written out."""
    model = fitted(layers=1, block=kind, scale_input=scaled)
    net: Any = model.net
    items = torch.tensor([-1, -1, 3, 0, 8, 1])
    block = net.blocks[0]
    with torch.no_grad():
        x = net.items.weight[items[2:]] * (np.sqrt(DIM) if scaled else 1)
        x = x + net.positions.weight[torch.arange(2, LENGTH)]
        first, second = block.attention_norm, block.network_norm
        if kind == "pre":
            x = x + attention(block, first(x))
            x = net.norm(x + block.outer(block.inner(second(x)).relu()))
        elif kind == "post":
            x = first(x + attention(block, x))
            x = second(x + block.outer(block.inner(x).relu()))
        else:
            x = x + attention(block, first(x)) / (1 + torch.exp(-block.attention_gate(x)))
            inner, linear = block.inner(second(x)), block.linear(second(x))
            change = block.outer(inner / (1 + torch.exp(-inner)) * linear)
            x = net.norm(x + change / (1 + torch.exp(-block.network_gate(x))))
    torch.testing.assert_close(states(model, items[None])[0, :4], x, rtol=1e-4, atol=1e-5)


def batch(negatives: int) -> Batch:
    history = torch.tensor([[-1, -1, -1, 2, 5, 0], [1, 3, 4, 6, 8, 7]])
    positives = torch.tensor([[-1, -1, -1, 5, 0, 4], [3, 4, 6, 8, 7, 2]])
    drawn = torch.arange(2 * LENGTH * negatives).reshape(2, LENGTH, negatives) % N_ITEMS
    return Batch(torch.tensor([0, 1]), positives, drawn, history)


def next_scores(model: SASRec) -> list[tuple[np.ndarray, int, int, int]]:
    """(scores, next item, row, column) of the nine real positions, each scored by itself."""
    given = batch(0)
    assert given.history is not None
    out = []
    for row in range(2):
        for column in range(LENGTH):
            past = given.history[row, : column + 1]
            past = past[past >= 0]
            if len(past):
                place = torch.arange(LENGTH - 3 if row == 0 else 0, LENGTH)[: len(past)]
                with torch.no_grad():
                    state = model.net(past[None], place[None])[0, -1]
                    scores = (state @ model.tables[0].weight.T).numpy()
                out.append((scores, int(given.positives[row, column]), row, column))
    assert len(out) == 9
    return out


def test_the_softmax_loss_is_the_mean_over_all_positions() -> None:
    model = fitted()
    terms = [np.log(np.exp(s).sum()) - s[item] for s, item, _, _ in next_scores(model)]
    assert model.loss(batch(0)).item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_the_sampled_loss_is_binary_cross_entropy_at_all_positions() -> None:
    model = fitted(loss="sampled", negatives=2)
    given = batch(2)
    terms = []
    for scores, item, row, column in next_scores(model):
        chance = 1 / (1 + np.exp(-scores))
        negatives = given.negatives[row, column].tolist()
        terms.append(-np.log(chance[item]) - sum(np.log(1 - chance[n]) for n in negatives))
    assert model.loss(given).item() == pytest.approx(np.mean(terms), rel=1e-4)


def gradients(model: SASRec, given: Batch) -> dict[str, torch.Tensor]:
    """The loss, and the gradient of every weight."""
    model.net.zero_grad()
    loss = model.loss(given)
    loss.backward()  # type: ignore[no-untyped-call]
    return {"loss": loss} | {n: p.grad.clone() for n, p in model.net.named_parameters()}


KINDS = [("sampled", "pre"), *(("softmax", block) for block in BLOCKS)]


@pytest.mark.parametrize(("loss", "block"), KINDS)
def test_gradients_are_finite_and_reach_every_weight(loss: str, block: str) -> None:
    model = fitted(loss=loss, negatives=3, block=block)
    for name, value in gradients(model, batch(3)).items():
        assert value.isfinite().all(), name
        assert value.abs().max() > 0, name


@pytest.mark.parametrize(("loss", "block"), KINDS)
def test_a_step_can_be_recorded(loss: str, block: str) -> None:
    """Without values (device `meta`) nothing can wait for one or take a shape from one."""
    model = fitted(loss=loss, negatives=3, block=block)
    model.net.to("meta")
    model.loss(batch(3).map(lambda tensor: tensor.to("meta"))).backward()  # type: ignore[no-untyped-call]


def test_a_saved_model_of_another_kind_comes_back(tmp_path: Path) -> None:
    model = fitted(loss="sampled", block="ligr", scale_input=True)
    again = SASRec.load(model.save(tmp_path / "model"))
    assert again.config == model.config
    np.testing.assert_array_equal(again.score(ALL), model.score(ALL))


BY_DEFAULT = {
    f.name: f.default
    for f in fields(SASRecConfig)
    if f.name in {*GENERAL, "lr", "precision", "linear_weight", "transitions_weight"}
}
"""What `general` changes on every log, as it was."""


@pytest.mark.parametrize(("users", "short"), [(13, True), (2, False)])
def test_the_general_recipe_follows_the_length_of_histories(users: int, short: bool) -> None:
    """On average 24 interactions per user in training, or 26; too few users for 128 dimensions."""
    count = 24 if short else 26
    user, item = np.divmod(np.arange(users * count), count)
    ids = IdMap.range(users, "user"), IdMap.range(count, "item")
    train = Interactions.from_arrays(user, item, None, *ids)
    config = SASRec.from_recipe("general", train).config
    assert isinstance(config, SASRecConfig)
    found = config.layers, config.max_history, config.dropout, config.dim, config.hidden
    assert found == ((1, 50, 0.35, 64, 128) if short else (2, 100, 0.2, 64, 64))
    assert SASRec.from_recipe("general", train, layers=3).config.layers == 3
    many = IdMap.range(150, "user"), IdMap.range(140, "item")
    sparse = Interactions.from_arrays(user % 150, item, None, *many)
    assert SASRec.from_recipe("general", sparse).config.dim == 128
    assert SASRec.from_recipe("general").config.replace(**BY_DEFAULT) == SASRecConfig()


def test_training_resolves_the_recipe_from_its_split() -> None:
    quick = {"dim": DIM, "steps": 1, "eval_every": 0, "progress": False, "device": "cpu"}
    model = leporid.train("sasrec", small_split(), init=None, recipe="general", **quick)
    assert (model.config.layers, model.config.steps) == (1, 1)  # type: ignore[attr-defined]


def test_scores_are_those_of_the_newest_state_for_anyone_with_that_history() -> None:
    model = fitted()
    sequences = small_split().train_valid.sequences()
    histories = [sequences.of(u) for u in range(N_USERS) if u != 5]
    known = np.delete(model.score(ALL), 5, axis=0)
    newest = histories[0][-LENGTH:].astype(np.int64)
    with torch.no_grad():
        place = torch.arange(LENGTH - len(newest), LENGTH)
        state = model.net(torch.from_numpy(newest)[None], place[None])[0, -1]
        expected = (state @ model.tables[0].weight.T).numpy()
    np.testing.assert_allclose(known[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.score_histories(histories), known, rtol=1e-4, atol=1e-5)


def test_item_vectors_alone_are_taken() -> None:
    init = initial_vectors()
    model = fitted(freeze_steps=-1, standardize=False, init_scale=1.0)
    assert len(model.tables) == 1
    np.testing.assert_array_equal(model.tables[0].weight.detach().numpy(), init.items.vectors)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of heads"):
        SASRec(dim=6, heads=4)
    with pytest.raises(ConfigError, match="dropout"):
        SASRec(dropout=1.0)
    with pytest.raises(ConfigError, match="max_history"):
        SASRec(max_history=0)
