"""DLR2: the network against plain formulas, its losses, its scoring paths, new people."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leporid.data import Interactions, Sequences, Split
from leporid.embeddings import Embedding, InitialEmbeddings, TableExtension
from leporid.errors import ConfigError, LeporidWarning
from leporid.models import Batch, BuildContext, Sampler, TrainingData
from leporid.models.neural.dlr2.feature_network import (
    FeatureNetwork,
    ResNet,
    ReversibleBlock,
    Stem,
)
from leporid.models.neural.dlr2.heads import Discriminative
from leporid.models.neural.dlr2.model import DLR2
from tests.models.rankings import check_ranking
from tests.training.toy import make_split

TINY: dict[str, Any] = {"dim": 6, "steps": 4, "batch_size": 12, "max_history": 3, "eval_every": 0}
USERS = np.arange(23, dtype=np.int32)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.fixture(scope="module")
def fitted(split: Split) -> DLR2:
    return DLR2(**TINY).fit(split, seed=3, device="cpu")


def batch_of(model: DLR2, split: Split) -> Batch:
    data = TrainingData.from_interactions(split.train, torch.device("cpu"))
    return Sampler(data, model.sampling(), 12, seed=0).batch(0)


# -- the Feature Network ------------------------------------------------------------------


def test_the_folded_stem_is_the_two_convolutions() -> None:
    torch.manual_seed(0)
    stem, image = Stem(64), torch.randn(5, 4, 7, requires_grad=True)
    wide, hidden = stem(image)
    plain = functional.conv2d(image.unsqueeze(1), stem.widen.weight).relu()
    torch.testing.assert_close(wide, plain)
    expected = functional.conv2d(plain, stem.conv.weight, padding=1)
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
    weights = [image, stem.widen.weight, stem.conv.weight]
    target = torch.randn_like(hidden)
    for got, wanted in zip(
        torch.autograd.grad((hidden * target).sum(), weights),
        torch.autograd.grad((expected * target).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


def plain_resnet(net: ResNet, image: Tensor) -> Tensor:
    """The paper's appendix, word for word."""
    x = functional.conv2d(image.unsqueeze(1), net.stem.widen.weight).relu()
    hidden = functional.conv2d(x, net.stem.conv.weight, padding=1).relu()
    hidden = functional.conv2d(hidden, net.conv1.weight, padding=1)
    x = (hidden + x).relu() if net.shortcuts else hidden.relu()
    hidden = functional.conv2d(x, net.conv2.weight, padding=1, stride=2).relu()
    hidden = functional.conv2d(hidden, net.conv3.weight, padding=1)
    if not net.shortcuts:
        return hidden.relu()
    shortcut = functional.conv2d(x, net.down[0].weight, stride=2)
    return (hidden + net.down[1](shortcut)).relu()


@pytest.mark.parametrize("shortcuts", [True, False])
def test_resnet_and_only_conv_follow_the_appendix(shortcuts: bool) -> None:
    torch.manual_seed(1)
    net = ResNet(shortcuts).eval()
    image = torch.randn(3, 6, 9)
    out = net(image)
    assert out.shape == (3, 128, 3, 5)
    torch.testing.assert_close(out, plain_resnet(net, image), rtol=1e-4, atol=1e-4)


def test_few_channels_on_one_thread_stay_within_their_memory() -> None:
    """oneDNN's gradient of a strided 1x1 convolution does not; the allocator checks itself here."""
    program = (
        "import torch; torch.set_num_threads(1)\n"
        "from leporid.models.neural.dlr2.feature_network import ResNet\n"
        "net = ResNet(shortcuts=True, channels=2).to(memory_format=torch.channels_last)\n"
        "for _ in range(40):\n"
        "    net(torch.randn(32, 6, 8, requires_grad=True)).square().mean().backward()\n"
        "    [torch.randn(n) for n in range(1, 50)]\n"
    )
    checked = os.environ | {"MALLOC_CHECK_": "3", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=checked, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_reversible_block_gives_its_input_back() -> None:
    torch.manual_seed(2)
    block, x = ReversibleBlock(8), torch.randn(3, 8, 4, 5)
    y = block(x)
    assert not torch.allclose(y, x, atol=1e-2)
    y1, y2 = y.chunk(2, dim=1)
    x2 = y2 - block.g(y1)
    again = torch.cat([y1 - block.f(x2), x2], dim=1)
    torch.testing.assert_close(again, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", ["resnet", "revnet", "only_conv", "no_conv"])
@pytest.mark.parametrize(("length", "dim"), [(5, 8), (4, 7)])
def test_every_design_reads_the_whole_image(architecture: Any, length: int, dim: int) -> None:
    torch.manual_seed(3)
    net = FeatureNetwork(architecture, length + 1, dim, dropout=0.0).eval()
    image = torch.randn(2, length + 1, dim, requires_grad=True)
    s = net(image)
    assert s.shape == (2, dim)
    (gradient,) = torch.autograd.grad(s.sum(), image)
    assert (gradient.abs().sum(dim=-1) > 0).all()


# -- the heads ----------------------------------------------------------------------------


def pair_by_pair(head: Discriminative, s: Tensor, items: Tensor) -> Tensor:
    """S on the concatenation [s; e_j], one pair after the other."""
    rows = []
    for state in s:
        pairs = torch.cat([state.expand(len(items), -1), items], dim=1)
        hidden = head.second(head.first(pairs).relu()).relu()
        rows.append(head.last(head.third(hidden).relu()).squeeze(1))
    return torch.stack(rows)


@pytest.mark.parametrize("n_items", [1, 14, 2050])
def test_scoring_all_items_is_s_pair_by_pair(n_items: int) -> None:
    torch.manual_seed(4)
    head = Discriminative(6)
    s, items = torch.randn(3, 6), torch.randn(n_items, 6)
    with torch.no_grad():
        expected = pair_by_pair(head, s, items)
        fast = head.all_items(s, head.item_half(items))
        torch.testing.assert_close(fast, expected, rtol=1e-4, atol=1e-6)
        some = head(s, items.expand(3, -1, -1))
        torch.testing.assert_close(some, expected, rtol=1e-4, atol=1e-6)


# -- the losses ---------------------------------------------------------------------------


@pytest.mark.parametrize("as_printed", [True, False])
@pytest.mark.parametrize("losses", ["both", "discriminative", "generative"])
def test_the_margin_losses_are_equations_10_and_11(
    split: Split, losses: Any, as_printed: bool
) -> None:
    inference = "generative" if losses == "generative" else "discriminative"
    settings: Any = {"losses": losses, "inference": inference, "relu_on_negatives": as_printed}
    model = DLR2(**TINY, **settings, margin=0.4, negatives=2)
    model.fit(split, seed=3, device="cpu")
    batch, net = batch_of(model, split), model.network.eval()
    with torch.no_grad():
        # Some values on each side of zero, or the two readings of the ReLU would be one.
        net.discriminative.last.bias.sub_(0.2)
        got = model.loss(batch)
        total = 0.0
        for row in range(len(batch)):
            user = net.users.weight[batch.users[row]]
            image = torch.stack([user, *net.items.weight[batch.history[row]]])
            s = net.features(image.unsqueeze(0))[0]
            g = net.generative(s).tanh()
            positive = net.items.weight[batch.positives[row]]
            for negative in net.items.weight[batch.negatives[row]]:
                near, far = pair_by_pair(
                    net.discriminative, s.unsqueeze(0), torch.stack([positive, negative])
                )[0]
                far = far.relu() if as_printed else far
                square = near.relu() ** 2 + max(0.4 - far, 0) ** 2
                hinge = max(((g - positive) ** 2).mean() - ((g - negative) ** 2).mean() + 0.4, 0)
                total += float(losses != "generative") * square / 2
                total += float(losses != "discriminative") * hinge / 2
    assert float(got) == pytest.approx(float(total) / len(batch), rel=1e-4)


def test_the_softmax_losses_are_cross_entropies(split: Split) -> None:
    model = DLR2(**TINY, objective="softmax", negatives=3, item_bias=True)
    model.fit(split, seed=3, device="cpu")
    batch, net = batch_of(model, split), model.network.eval()
    with torch.no_grad():
        net.bias.normal_()
        s = net.state(net.users(batch.users), batch.history)
        logits = net.generative(s) @ net.items.weight.T * net.log_temperature.exp() + net.bias
        rows = torch.arange(len(batch))
        made = -logits.log_softmax(1)[rows, batch.positives].mean()
        judged = pair_by_pair(net.discriminative, s, net.items.weight)
        chosen = torch.cat([batch.positives[:, None], batch.negatives], 1)
        expected = -judged.gather(1, chosen).log_softmax(1)[:, 0].mean() + made
        assert float(model.loss(batch)) == pytest.approx(float(expected), rel=1e-4)


def test_hard_negatives_are_those_g_ranks_highest(split: Split) -> None:
    model = DLR2(**TINY, negative_kind="hard", negatives=2)
    model.fit(split, seed=3, device="cpu")
    batch, net = batch_of(model, split), model.network.eval()
    assert batch.negatives.shape == (12, 16)
    with torch.no_grad():
        g = net.target(net.state(net.users(batch.users), batch.history))
        chosen = model._negatives(batch, g)
        scores = net.generative_scores(g)
    for row in range(12):
        ranked = sorted(batch.negatives[row].tolist(), key=lambda j: -float(scores[row, j]))
        assert sorted(chosen[row].tolist()) == sorted(ranked[:2])


@pytest.mark.parametrize("seed", range(4))
def test_small_random_vectors_do_not_leave_s_dead(split: Split, seed: int) -> None:
    model = DLR2(**{**TINY, "steps": 1, "lr": 1e-9}).fit(split, seed=seed, device="cpu")
    model.network.train()
    model.loss(batch_of(model, split)).backward()
    gradient = model.network.discriminative.first.weight.grad
    assert gradient is not None
    assert float(gradient.abs().sum()) > 0


def test_s_below_zero_everywhere_comes_back_unless_the_relu_is_taken_as_printed(
    split: Split,
) -> None:
    for as_printed, alive in ((False, True), (True, False)):
        model = DLR2(**{**TINY, "steps": 1, "lr": 1e-9}, relu_on_negatives=as_printed)
        model.fit(split, device="cpu")
        with torch.no_grad():
            model.network.discriminative.last.bias.fill_(-5.0)
        model.network.zero_grad()
        model.loss(batch_of(model, split)).backward()
        gradient = model.network.discriminative.last.bias.grad
        assert gradient is not None
        assert bool(gradient.abs().sum() > 0) is alive


def test_a_margin_of_zero_warns_why(split: Split) -> None:
    with pytest.warns(LeporidWarning, match="margin=0 cannot teach"):
        DLR2(**TINY, margin=0.0).fit(split, device="cpu")


@pytest.mark.parametrize(
    "settings",
    [
        {"losses": "generative"},
        {"losses": "discriminative", "inference": "mixture"},
        {"max_history": 0},
        {"image_dropout": 1.0},
        {"margin": -0.1},
        {"mixture": 2.0},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DLR2(**settings)


# -- scoring ------------------------------------------------------------------------------


def test_scores_are_minus_the_distance_the_network_gives(fitted: DLR2, split: Split) -> None:
    net, sequences = fitted.network, split.train_valid.sequences()
    scores = fitted.score(USERS)
    for user in (0, 9, 22):
        recent = sequences.of(user)[-3:].tolist()
        recent = [recent[0]] * (3 - len(recent)) + recent
        with torch.no_grad():
            image = torch.stack([net.users.weight[user], *net.items.weight[recent]])
            s = net.features(image.unsqueeze(0))
            expected = -pair_by_pair(net.discriminative, s, net.items.weight)[0]
        np.testing.assert_allclose(scores[user], expected, rtol=1e-4, atol=1e-6)


def inferred_by(model: DLR2, branch: str) -> DLR2:
    model.config = model.config.replace(inference=branch)
    return model


def test_branches_can_be_changed_after_training(split: Split) -> None:
    model = DLR2(**TINY, mixture=0.25).fit(split, seed=3, device="cpu")
    judged = model.score(USERS)
    made = inferred_by(model, "generative").score(USERS)
    mixed = inferred_by(model, "mixture").score(USERS)
    np.testing.assert_allclose(mixed, 0.25 * judged + 0.75 * made, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        net = model.network
        recent = model._recent(split.train_valid.sequences(), USERS[:1])
        g = net.generative(net.state(net.users(torch.tensor([0])), recent)).tanh()
        distance = ((g - net.items.weight) ** 2).mean(dim=1)
    np.testing.assert_allclose(made[0], -distance, rtol=1e-4, atol=1e-5)


def test_two_stages_with_all_but_one_candidate_are_the_full_ranking(fitted: DLR2) -> None:
    full, excluded = fitted.top_k(USERS, 5), fitted.known.sequences().take(USERS)
    staged = fitted.retrieve(USERS, 5, 13, excluded=excluded)
    few = fitted.retrieve(USERS, 5, 3, excluded=excluded)
    assert staged is not None
    assert few is not None
    check_ranking(staged.items, full.items, fitted.score(USERS))
    assert (few.items >= 0).sum(axis=1).max() == 3


def test_retrieving_needs_a_ranking_by_s(fitted: DLR2) -> None:
    excluded = fitted.known.sequences().take(USERS)
    assert fitted.retrieve(USERS, 3, 6, excluded=excluded) is not None
    before = fitted.config
    try:
        inferred_by(fitted, "generative")
        assert fitted.retrieve(USERS, 3, 6, excluded=excluded) is None
        fitted.config = before.replace(losses="discriminative", inference="discriminative")
        assert fitted.retrieve(USERS, 3, 6, excluded=excluded) is not None
    finally:
        fitted.config = before


@pytest.mark.parametrize("inference", ["mixture", "discriminative"])
@pytest.mark.parametrize("objective", ["margin", "softmax"])
def test_two_stages_rank_by_the_scores_of_the_model(
    split: Split, inference: str, objective: str
) -> None:
    tiny = {**TINY, "objective": objective, "mixture": 0.25}
    model = DLR2(**tiny).fit(split, seed=3, device="cpu")
    past = [model.known.sequences().of(int(user)) for user in USERS]
    # Hidden are the user's own items and one more.
    more = [np.append(row, (user * 5) % 14).astype(np.int32) for user, row in enumerate(past)]
    inferred_by(model, inference)
    full = (model.score(USERS), model.score_histories(past))
    excluded = Sequences.from_rows(more)
    staged = (
        model.retrieve(USERS, 3, 5, excluded=excluded),
        model.retrieve(None, 3, 5, histories=Sequences.from_rows(past), excluded=excluded),
    )
    for scores, top in zip(full, staged, strict=True):
        assert top is not None
        for user, row in enumerate(more):
            scores[user, row] = -np.inf
            best = np.argsort(-scores[user], kind="stable")[:3]
            best = best[np.isfinite(scores[user, best])]
            check_ranking(top.items[[user], : len(best)], best[None], scores[[user]])
            np.testing.assert_allclose(
                top.scores[user, : len(best)], scores[user, best], rtol=1e-4, atol=1e-5
            )
            assert (top.items[user, len(best) :] == -1).all()


def test_a_user_without_history_gets_finite_scores(split: Split) -> None:
    train = split.train.select(split.train.user != 5)
    valid = split.valid.select(split.valid.user != 5)
    model = DLR2(**TINY).fit(Split(train, valid, split.test, "x"), device="cpu")
    assert np.isfinite(model.score(np.array([5], np.int32))).all()


# -- the recipe for any log ---------------------------------------------------------------

GENERAL: dict[str, Any] = {**TINY, "profile_items": 6, "padding": "mask", "patience": 0}


def test_an_untrained_g_with_a_shortcut_points_to_the_rows_it_reads(split: Split) -> None:
    model = DLR2.from_recipe("general", **GENERAL, image_dropout=0.0, user_dropout=0.0)
    model.fit(split, seed=3, device="cpu")
    net = model.network.eval()
    recent = torch.tensor([[-1, -1, -1, 4, 2, 7]])
    with torch.no_grad():
        net.generative[-1].weight.zero_()
        net.generative[-1].bias.zero_()
        rows, size = net.items.weight, net.items.weight.square().mean().sqrt()
        profile = (rows[4] + rows[2] + rows[7]) / 3**0.5
        read = torch.stack([profile, rows[4], rows[2], rows[7]])
        expected = (net.history_weights[:, None] * read).sum(0) / size
        g = net.target(net.state(net.users.weight[:1], recent))
    torch.testing.assert_close(g[0], expected)
    fresh = DLR2.from_recipe("general", **GENERAL)
    fresh.fit(split, seed=3, device="cpu", init=None)
    halves = 0.5 ** np.arange(3, 0, -1)
    start = np.concatenate([[0.3], halves / halves.sum()])
    assert fresh.network.history_weights.detach().numpy() == pytest.approx(start, abs=0.05)


def test_masked_padding_hides_the_rows_that_are_missing(split: Split) -> None:
    model = DLR2.from_recipe("general", **GENERAL)
    history = batch_of(model, split).history
    assert history is not None
    assert (history == -1).any()
    assert model.sampling().length == 6
    repeated = batch_of(DLR2(**TINY), split).history
    assert repeated is not None
    assert (repeated >= 0).all()


def test_the_input_scale_makes_the_image_as_large_from_any_start(split: Split) -> None:
    seen = []
    for scale in (0.01, 1.0):
        model = DLR2.from_recipe("general", **GENERAL, standardize=False)
        rng = np.random.default_rng(0)
        sides = [Embedding(rng.normal(0, scale, (n, 6)).astype(np.float32)) for n in (23, 14)]
        model._build(BuildContext(split.train, 6, InitialEmbeddings(*sides)), seed=0)
        seen.append(float((model.network.items.weight * model.network.input_scale).detach().std()))
    assert seen[0] == pytest.approx(seen[1], rel=1e-3)


# -- people never seen --------------------------------------------------------------------


def test_new_people_are_placed_near_those_with_the_same_taste() -> None:
    # Two camps that share no item; the table's columns are camp and noise.
    rng = np.random.default_rng(0)
    matrix = np.zeros((40, 20), bool)
    matrix[:25, :10] = rng.random((25, 10)) < 0.6
    matrix[25:, 10:] = rng.random((15, 10)) < 0.6
    matrix[:, 0] |= ~matrix.any(axis=1)
    user, item = np.nonzero(matrix)
    from leporid.data import IdMap

    train = Interactions.from_arrays(user, item, None, IdMap.range(40), IdMap.range(20))
    table = np.stack([np.where(np.arange(40) < 25, 3.0, -2.0), rng.normal(size=40)], axis=1)
    histories = Sequences.from_rows([np.array(h, np.int32) for h in ([1, 2, 3], [12, 15], [])])
    placement = TableExtension(train.csr(), table.astype(np.float32), 8)
    rows = placement.extend(histories.csr(20))
    assert rows.shape == (3, 2)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[:2, 0], [3.0, -2.0], atol=0.05)
    assert np.isfinite(rows).all()


def test_a_new_person_with_a_fitted_history_gets_similar_advice(split: Split) -> None:
    model = DLR2(**{**TINY, "steps": 30}).fit(split, seed=3, device="cpu")
    histories = [split.train_valid.sequences().of(u) for u in range(23)]
    scores = model.score_histories(histories)
    assert scores.shape == (23, 14)
    known = model.score(USERS)
    close = [np.corrcoef(a, b)[0, 1] for a, b in zip(scores, known, strict=True)]
    assert np.median(close) > 0.9
    items, _ = model.recommend_history([[3, 1], [7]], n=4)
    assert items.shape == (2, 4)
    assert not {3, 1} & set(items[0].tolist())


def test_a_new_person_gets_the_masked_row_that_training_rehearsed(split: Split) -> None:
    model = DLR2.from_recipe("general", **TINY).fit(split, seed=3, device="cpu")
    histories = [split.train_valid.sequences().of(u) for u in range(23)]
    masked = model.score_histories(histories)
    with torch.no_grad():
        model.network.users.weight.zero_()
    model.weights_changed()
    np.testing.assert_array_equal(model.score(USERS), masked)


def test_rows_are_those_of_neighbours_where_training_rehearsed_no_masked_ones(split: Split) -> None:
    of_neighbours = DLR2.from_recipe("general", **TINY, new_users="neighbours").fit(
        split, device="cpu"
    )
    unrehearsed = DLR2.from_recipe("general", **TINY, user_dropout=0.4).fit(split, device="cpu")
    history = Sequences.from_rows([split.train.sequences().of(0)])
    for model in (of_neighbours, unrehearsed):
        assert model.new_rows(history).abs().max() > 0
    unrehearsed.config = unrehearsed.config.replace(user_dropout=0.5)
    assert unrehearsed.new_rows(history).abs().max() == 0


def test_a_circle_is_not_padded_with_its_own_items() -> None:
    assert DLR2(circular=True, padding="mask").config.circular
    with pytest.raises(ConfigError, match="circular=True needs padding='mask'"):
        DLR2(circular=True)
