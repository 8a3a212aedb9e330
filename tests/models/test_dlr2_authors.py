"""DLR2's recipe `authors`: every setting in which the authors' program departs from the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leporid.data import Split
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError
from leporid.models import Sampler, Sampling, TrainingData
from leporid.models.neural.dlr2.model import DLR2, hinge
from tests.training.toy import make_split

TINY: dict[str, Any] = {"dim": 6, "steps": 4, "batch_size": 12, "max_history": 3, "eval_every": 2}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


def authors(**settings: Any) -> DLR2:
    return DLR2.from_recipe("authors", **{**TINY, **settings})


def vectors(split: Split, method: str) -> InitialEmbeddings:
    rng = np.random.default_rng(4)
    users, items = (
        Embedding(rng.standard_normal((n, 6)).astype(np.float32), None, {"method": method})
        for n in (split.n_users, split.n_items)
    )
    return InitialEmbeddings(users, items)


def sampler_of(split: Split, sampling: Sampling) -> Sampler:
    return Sampler(TrainingData.from_interactions(split.train, CPU), sampling, 12, seed=0)


def test_the_recipe_is_the_authors_program() -> None:
    config = DLR2.from_recipe("authors").config
    assert (config.batch_size, config.steps, config.margin, config.max_history) == (
        32,
        5000,
        0.5,
        5,
    )
    assert (config.metric, config.eval_every, config.inference) == (
        "Precision@1", 100, "discriminative",
    )  # fmt: skip
    assert not config.last_relu
    assert config.freeze_init
    assert (config.epochs, config.lr, config.schedule) == (0.0, 1e-3, "cosine")


def test_l_s_is_two_sided_squares_of_a_linear_layer(split: Split) -> None:
    model = authors(losses="discriminative").fit(split, seed=3, device="cpu")
    batch = sampler_of(split, model.sampling()).batch(0)
    net, total = model.network.eval(), 0.0
    assert batch.history is not None
    with torch.no_grad():
        # Positives on both sides of zero, or one-sided squares would give the same.
        net.discriminative.last.bias.sub_(0.3)
        signs = set()
        for row in range(len(batch)):
            image = torch.stack(
                [net.users.weight[batch.users[row]], *net.items.weight[batch.history[row]]]
            )
            s = net.features(image.unsqueeze(0))
            pair = torch.stack([batch.positives[row], batch.negatives[row, 0]])
            near, far = net.discriminative(s, net.items.weight[pair].unsqueeze(0))[0].tolist()
            signs.add(near > 0)
            total += near**2 + max(0.5 - far, 0.0) ** 2
        assert False in signs
        assert float(model.loss(batch)) == pytest.approx(total / len(batch), rel=1e-4)


def test_the_last_layer_of_s_is_linear_and_starts_as_torch_has_it(split: Split) -> None:
    for recipe, half_margin in (("authors", False), ("paper", True)):
        model = DLR2.from_recipe(recipe, **{**TINY, "steps": 1, "lr": 1e-12})
        model.fit(split, seed=3, device="cpu")
        bias = float(model.network.discriminative.last.bias.detach())
        assert (bias == pytest.approx(0.25)) is half_margin
    # Far below zero a positive is as wrong as far above: the gradient brings it back.
    model = authors(losses="discriminative").fit(split, seed=3, device="cpu")
    with torch.no_grad():
        model.network.discriminative.last.bias.fill_(-5.0)
    model.network.zero_grad()
    batch = sampler_of(split, model.sampling()).batch(0)
    judged = model._discriminative_loss(
        model.network.state(model.network.users(batch.users), batch.history),
        model.network.items(batch.positives[:, None]).repeat(1, 2, 1),
    )
    judged.backward()
    gradient = model.network.discriminative.last.bias.grad
    assert gradient is not None
    assert float(gradient) < -9


def test_g_is_trained_by_squares_and_ranks_by_absolute_differences(split: Split) -> None:
    model = authors(inference="generative").fit(split, seed=3, device="cpu")
    net, users = model.network, np.arange(3, dtype=np.int32)
    scores = model.score(users)
    recent = model._recent(split.train_valid.sequences(), users)
    with torch.no_grad():
        g = net.target(net.state(net.users(torch.arange(3)), recent))
        distance = (g[:, None] - net.items.weight[None]).abs().mean(-1)
        squares = (g[:, None] - net.items.weight[None]).square().mean(-1)
    np.testing.assert_allclose(scores, -distance.numpy(), rtol=1e-4, atol=1e-6)
    items = torch.tensor([[0, 1], [2, 3], [4, 5]])
    loss = hinge(g, net.items(items), model.config.margin)
    expected = [
        max(float(squares[row, a] - squares[row, b]) + 0.5, 0.0)
        for row, (a, b) in enumerate(items.tolist())
    ]
    assert float(loss.detach()) == pytest.approx(np.mean(expected), rel=1e-4)


def test_only_full_windows_are_examples(split: Split) -> None:
    sampling = authors().sampling()
    assert sampling.shortest == sampling.length == 3
    counts = np.diff(split.train.sequences().indptr)
    assert sampler_of(split, sampling).n_examples == int(np.maximum(counts - 3, 0).sum())
    assert sampler_of(split, Sampling("windows", length=3)).n_examples == int((counts - 1).sum())
    with pytest.raises(DataError, match="users with 41 or more items"):
        sampler_of(split, Sampling("windows", length=40, shortest=40))


@pytest.mark.parametrize(("method", "moves"), [("leporid", False), ("random", True)])
def test_given_vectors_are_frozen_and_random_ones_trained(
    split: Split, method: str, moves: bool
) -> None:
    start = vectors(split, method)
    model = authors().fit(split, seed=3, init=start, device="cpu")
    wanted = start if moves else start.standardized()
    for table, given in zip(model.tables, (wanted.users, wanted.items), strict=True):
        same = np.allclose(table.weight.detach().numpy(), given.vectors, atol=1e-6)
        assert same is not moves
    assert model.config.freeze_steps == (0 if moves else -1)


def test_a_relu_that_is_not_there_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match="last_relu"):
        DLR2(last_relu=False, relu_on_negatives=True)
