"""SASRec: causality, padding, both losses, and attention against a plain evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from leporid.errors import ConfigError
from leporid.models.sasrec import SASRec, to_front
from leporid.training.sampler import Batch
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)
LENGTH = 6


def fitted(**settings: Any) -> SASRec:
    settings = {"dim": DIM, "steps": 2, "heads": 2, "hidden": 5, "dropout": 0.0, **settings}
    model = SASRec(length=LENGTH, eval_every=0, batch_size=8, **settings)
    return model.fit(small_split(), init=initial_vectors(), device="cpu")


def states(model: SASRec, histories: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        rows, place, _ = to_front(histories)
        result: torch.Tensor = model.net(rows, place)
        return result


@pytest.mark.parametrize("changed", range(LENGTH))
def test_a_later_item_never_changes_an_earlier_position(changed: int) -> None:
    model = fitted()
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


def test_a_state_is_the_formula_with_a_causal_mask() -> None:
    """One block, written out: LayerNorm, attention by two heads, ReLU network, residuals."""
    model = fitted(layers=1)
    net: Any = model.net
    items = torch.tensor([-1, -1, 3, 0, 8, 1])
    real = items[2:]
    with torch.no_grad():
        x = net.items.weight[real] + net.positions.weight[torch.arange(2, LENGTH)]
        block = net.blocks[0]
        normal = functional.layer_norm(
            x, (DIM,), block.attention_norm.weight, block.attention_norm.bias
        )
        query, key, value = (normal @ block.query_key_value.weight.T).chunk(3, dim=1)
        query, key, value = (
            part + bias
            for part, bias in zip(
                (query, key, value), block.query_key_value.bias.chunk(3), strict=True
            )
        )
        heads = []
        for head in (slice(0, 2), slice(2, 4)):
            logits = query[:, head] @ key[:, head].T / np.sqrt(2)
            logits[torch.ones(4, 4).triu(1) > 0] = -torch.inf
            heads.append(logits.softmax(dim=1) @ value[:, head])
        x = x + block.attention_output(torch.cat(heads, dim=1))
        normal = functional.layer_norm(
            x, (DIM,), block.network_norm.weight, block.network_norm.bias
        )
        x = x + block.outer(block.inner(normal).relu())
        expected = functional.layer_norm(x, (DIM,), net.norm.weight, net.norm.bias)
    torch.testing.assert_close(states(model, items[None])[0, :4], expected, rtol=1e-4, atol=1e-5)


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
    model = fitted(freeze_steps=-1, standardize=False)
    assert len(model.tables) == 1
    np.testing.assert_array_equal(model.tables[0].weight.detach().numpy(), init.items.vectors)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of heads"):
        SASRec(dim=6, heads=4)
    with pytest.raises(ConfigError, match="dropout"):
        SASRec(dropout=1.0)
    with pytest.raises(ConfigError, match="length"):
        SASRec(length=0)
