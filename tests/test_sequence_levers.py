"""The levers of benchmarks/sequence_levers.py: off they are SASRec, on they read no future."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.sequence_levers import LeverBlock, SASRecLevers, causal_mean
from leporid.data import Interactions, Sequences, Split
from leporid.errors import ConfigError
from leporid.models import Batch, Sampler, TrainingData
from leporid.models.neural.sasrec import SASRec, to_front
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)
LENGTH, START = 6, 1_500_000_000
LEVERS: dict[str, dict[str, Any]] = {
    "mixing": {"mixing": 0.7, "low_pass": 2},
    "time_gap": {"time_gap": True},
    "item_bias": {"item_bias": True},
    "label_smoothing": {"label_smoothing": 0.2},
    "profile": {"profile": 3},
}
BLOCKS = ("pre", "post", "ligr")


def timed_split(seed: int = 0) -> Split:
    """The small split, its events seconds to years apart."""
    rng, split = np.random.default_rng(seed), small_split()
    whole = split.train_valid.time
    assert whole is not None
    moments = START + np.cumsum(2 ** rng.integers(0, 27, whole.max() + 3))

    def timed(part: Interactions) -> Interactions:
        assert part.time is not None
        return replace(part, time=moments[part.time])

    return replace(split, train=timed(split.train), valid=timed(split.valid), test=split.test)


def fitted(kind: type[SASRec] = SASRecLevers, split: Split | None = None, **changes: Any) -> Any:
    settings = {"dim": DIM, "steps": 5, "heads": 2, "hidden": 5, "max_history": LENGTH} | changes
    model = kind(eval_every=0, batch_size=8, **settings)
    return model.fit(split or timed_split(), init=initial_vectors(), device="cpu")


def with_gap_numbers(model: Any) -> Any:
    """Five steps leave the numbers of the gaps near zero."""
    with torch.no_grad():
        for block in model.net.blocks:
            block.gap_bias[:-1] = torch.randn(block.gap_bias[:-1].shape)
    return model


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("loss", ["softmax", "sampled"])
def test_without_levers_it_is_sasrec_bit_for_bit(loss: str, block: str) -> None:
    ours, plain = (fitted(kind, loss=loss, block=block) for kind in (SASRecLevers, SASRec))
    np.testing.assert_array_equal(ours.score(ALL), plain.score(ALL))


@pytest.mark.parametrize("lever", LEVERS)
def test_each_lever_changes_the_scores_and_new_users_have_them_too(lever: str) -> None:
    model, plain = fitted(**LEVERS[lever]), fitted(SASRec)
    assert np.abs(model.score(ALL) - plain.score(ALL)).max() > 1e-5
    assert np.isfinite(model.score_histories([np.array([3, 1]), np.array([], int)])).all()


@pytest.mark.parametrize("lever", ["mixing", "item_bias", "profile", "time_gap"])
def test_vectors_give_the_scores(lever: str) -> None:
    model = fitted(**LEVERS[lever])
    vectors = model.user_vectors(model.known.sequences(), ALL) @ model.item_vectors().T
    np.testing.assert_allclose(vectors, model.score(ALL), atol=1e-5)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("lever", ["mixing", "profile", "time_gap"])
@pytest.mark.parametrize("changed", range(1, 4))
def test_a_later_item_never_changes_an_earlier_state(changed: int, lever: str, block: str) -> None:
    model = fitted(**LEVERS[lever], block=block)
    if lever == "time_gap":
        with_gap_numbers(model)
    sequences = model.known.sequences()
    user = int(np.argmax(np.diff(sequences.indptr)))
    items = torch.from_numpy(sequences.items[sequences.indptr[user] :][:4].astype(np.int64))
    unknown = int(np.setdiff1d(np.arange(N_ITEMS), items.numpy())[0])
    before = torch.nn.functional.pad(items, (LENGTH - 4, 0), value=-1)[None]
    after = before.clone()
    after[0, LENGTH - 4 + changed] = unknown
    shorter = before.roll(4 - changed, 1)
    shorter[0, : LENGTH - changed] = -1
    users = torch.tensor([user]) if lever == "time_gap" else None
    states = []
    with torch.no_grad():
        for history in (before, after, shorter):
            rows = to_front(history)[0]
            states.append(model.net(rows, before.new_tensor([range(LENGTH)]), users)[0])
    torch.testing.assert_close(states[0][:changed], states[1][:changed])
    torch.testing.assert_close(states[0][:changed], states[2][:changed])
    assert (states[0][changed] - states[1][changed]).abs().max() > 1e-6


def test_the_mean_is_of_the_last_positions() -> None:
    x = torch.randn(2, 7, 3)
    expected = torch.stack([x[:, max(0, t - 2) : t + 1].mean(dim=1) for t in range(7)], dim=1)
    torch.testing.assert_close(causal_mean(x, 3), expected)


def test_all_of_the_filter_is_the_input_where_high_frequencies_weigh_one() -> None:
    config = SASRecLevers(dim=DIM, mixing=0.5).config
    block, x = LeverBlock(config), torch.randn(2, 5, DIM)
    torch.nn.init.ones_(block.root)
    torch.testing.assert_close(block._filter(x), x)


def test_gaps_are_powers_of_two_of_seconds() -> None:
    split = timed_split()
    model, train = fitted(split=split, time_gap=True), split.train
    rows = np.flatnonzero(train.user == train.user[0])
    assert train.time is not None
    items = torch.from_numpy(train.item[rows].astype(np.int64))
    history = torch.cat([items, torch.tensor([-1])])[None]
    found = model.net.gaps(torch.tensor([int(train.user[0])]), history)[0]
    for query in range(len(rows)):
        for key in range(query + 1):
            gap = int(train.time[rows[query]] - train.time[rows[key]])
            assert found[query, key] == gap.bit_length()
    assert (found[-1] == 33).all()
    assert (found[:, -1] == 33).all()


@pytest.mark.parametrize("ticks", [1, 1000])
def test_scores_depend_on_times_where_gaps_have_numbers(ticks: int) -> None:
    def scores(split: Split, numbers: bool = True) -> Any:
        train, valid = (
            replace(part, time=np.asarray(part.time) * ticks) for part in (split.train, split.valid)
        )
        split = replace(split, train=train, valid=valid)
        model = fitted(split=split, time_gap=True, steps=1, lr=1e-9)
        torch.manual_seed(0)
        return (with_gap_numbers(model) if numbers else model).score(ALL)

    one, other = timed_split(0), timed_split(1)
    assert np.abs(scores(one) - scores(other)).max() > 1e-4
    np.testing.assert_allclose(scores(one, False), scores(other, False), atol=1e-6)


def test_a_long_sequence_cut_anywhere_has_its_times() -> None:
    split = timed_split()
    model = fitted(split=split, time_gap=True, max_history=2)
    data = TrainingData.from_interactions(split.train, torch.device("cpu"))
    sampler = Sampler(data, model.sampling(), 64, 0)
    assert split.train.time is not None
    pairs = zip(split.train.user, split.train.item, strict=True)
    moments = dict(zip(pairs, split.train.time, strict=True))
    for step in range(20):
        batch = sampler.batch(step)
        assert batch.history is not None
        gaps = model.net.gaps(batch.users, batch.history)[:, 1, 0]
        for user, (first, second), gap in zip(batch.users, batch.history, gaps, strict=True):
            if first >= 0:
                before, after = (moments[int(user), int(item)] for item in (first, second))
                assert gap == int(after - before).bit_length()


def test_histories_of_people_who_are_not_fitted_have_no_times() -> None:
    model = with_gap_numbers(fitted(time_gap=True, dropout=0.0))
    rows = [np.array([1, 4, 2])]
    without = fitted(SASRec)
    own = {name: model.net.state_dict()[name] for name in without.net.state_dict()}
    without.net.load_state_dict(own)
    np.testing.assert_allclose(
        model.score_histories(rows), without.score_histories(rows), atol=1e-6
    )
    # Nor has an item that a fitted user has had since.
    known = model.known.sequences()
    user = int(np.argmax(np.diff(known.indptr)))
    fresh = np.setdiff1d(np.arange(N_ITEMS), known.items[known.indptr[user] :][:8])[:1]
    every = Sequences.from_rows([fresh.astype(np.int32)] * N_USERS)
    users = np.array([user], dtype=np.int32)
    np.testing.assert_allclose(model.score(users, every), without.score(users, every), atol=1e-6)


@pytest.mark.parametrize("lever", LEVERS)
def test_a_gpu_can_record_a_step(lever: str) -> None:
    """Without values: what waits for one, or has a shape that depends on one, is refused."""
    model = fitted(**LEVERS[lever])
    model.net.to("meta").train()
    rows = torch.empty(8, LENGTH, dtype=torch.int64, device="meta")
    loss = model.loss(Batch(rows[:, 0], rows, rows.new_empty(8, LENGTH, 0), rows))
    loss.backward()
    assert loss.is_meta


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="times since 1970"):
        fitted(split=small_split(), time_gap=True)
    for lever in ("item_bias", "label_smoothing", "time_gap"):
        with pytest.raises(ConfigError, match='need loss="softmax"'):
            SASRecLevers(loss="sampled", **LEVERS[lever])
