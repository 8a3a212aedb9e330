"""The loop: resume to the bit, kill and interrupt, freezing, averaging, selection, processes.

Checkpoints, settings, history, the interrupt, groups of processes and validation are tested here,
through the loop that uses them.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import leporid
from leporid.data import Split
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.foundation import ProgressLike, Terminated
from leporid.models import (
    Batch,
    BestBaseline,
    Callback,
    FitContext,
    NeuralRecommender,
    TrainingConfig,
    learning_rate,
)
from leporid.models.neural import trainer as loop
from leporid.models.neural import validation
from leporid.models.neural.dlr2.model import DLR2
from leporid.models.neural.settings import averaging
from tests.training.toy import KILLED, TINY, Dot, assert_same_bits, weights

DLR2_RUN: dict[str, Any] = {
    **TINY,
    "steps": 10,
    "eval_every": 4,
    "image_dropout": 0.3,
    "feature_dropout": 0.1,
    "ema_decay": 0.8,
    "freeze_steps": 4,
    "clip_norm": 0.5,
}


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch,
    model: NeuralRecommender,
    step: int,
    kind: signal.Signals = signal.SIGINT,
    times: int = 1,
) -> None:
    """Ctrl-C arrives while step `step` is computed."""
    plain, calls = model.loss, 0

    def loss(batch: Batch) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == step:
            for _ in range(times):
                signal.raise_signal(kind)
        return plain(batch)

    monkeypatch.setattr(model, "loss", loss)


@pytest.fixture(scope="module")
def unbroken(split: Split) -> DLR2:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = DLR2(**DLR2_RUN).fit(split, seed=7, device="cpu")
    assert torch.get_num_threads() == 1  # validation runs numba, which may change it
    torch.set_num_threads(before)
    return model


@pytest.mark.parametrize("stop", [1, 4, 9])
def test_a_run_stopped_anywhere_and_resumed_has_the_bits_of_an_unbroken_run(
    split: Split, unbroken: DLR2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    stopped = DLR2(**DLR2_RUN)
    interrupt_at(monkeypatch, stopped, stop)
    with pytest.raises(TrainingInterruptedError, match=f"step {stop} of 10.*--resume"):
        stopped.fit(split, seed=7, device="cpu", context=FitContext(checkpoint=tmp_path))
    torch.rand(3)  # the state of torch's own generator must not matter
    resumed = DLR2(**DLR2_RUN).fit(
        split, seed=7, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
    )
    assert_same_bits(weights(resumed), weights(unbroken))
    timing = ("seconds", "examples_per_second")
    drop = [{k: v for k, v in row.items() if k not in timing} for row in resumed.history.rows]
    assert drop == [
        {k: v for k, v in row.items() if k not in timing} for row in unbroken.history.rows
    ]
    assert resumed.history.best_step == unbroken.history.best_step


@pytest.mark.parametrize("stop", [2, 9])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_that_is_kept_has_the_best_weights_so_far_and_can_go_on(
    split: Split,
    unbroken: DLR2,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: int,
    kind: signal.Signals,
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stopped = DLR2(**DLR2_RUN)
    interrupt_at(monkeypatch, stopped, stop, kind)
    context = FitContext(checkpoint=tmp_path, keep_interrupted=True, device="cpu")
    stopped.fit(split, seed=7, context=context)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    history = stopped.history
    assert (history.ended, history.interrupted_by, history.last_step) == (kind.name, kind, stop)
    assert stopped.training_summary()["ended"] == kind.name
    assert f"interrupted by {kind.name}, at step {stop} of 10" in history.describe()
    # Nothing was validated before step 4; later the best so far is what is kept.
    earlier = [row["metric"] for row in unbroken.history.rows if row["step"] <= stop]
    assert history.best_metric == max(earlier, default=None)
    assert history.best_step == (stop if stop < 4 else 4 + 4 * int(np.argmax(earlier)))
    short = DLR2(**DLR2_RUN | {"stop_at": history.best_step, "eval_every": 0})
    assert_same_bits(weights(stopped), weights(short.fit(split, seed=7, device="cpu")))

    assert FitContext(checkpoint=tmp_path).has_checkpoint
    resumed = DLR2(**DLR2_RUN).fit(
        split, seed=7, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
    )
    assert_same_bits(weights(resumed), weights(unbroken))
    assert (resumed.history.ended, resumed.history.interrupted_by) == ("steps", None)


def test_a_second_signal_interrupts_at_once(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = FitContext(checkpoint=tmp_path, keep_interrupted=True, device="cpu")
    for kind, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)):
        model = Dot(dim=4, steps=9, batch_size=8, checkpoint_every=2)
        interrupt_at(monkeypatch, model, 4, kind, times=2)
        with pytest.raises(error):
            model.fit(split, context=context)
        assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.safetensors"]
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_train_gives_the_model_so_far_to_who_interrupts_it(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Dot.loss
    steps = 0

    def loss(self: Dot, batch: Batch) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == 5:
            signal.raise_signal(signal.SIGTERM)
        return plain(self, batch)

    monkeypatch.setattr(Dot, "loss", loss)
    asked: dict[str, Any] = {"init": None, "recipe": None, "progress": False, "device": "cpu"}
    asked |= {"dim": 4, "steps": 9, "batch_size": 8, "eval_every": 2}
    with pytest.raises(TrainingInterruptedError, match=r"resume=True") as caught:
        leporid.train(Dot, split, checkpoint=tmp_path, **asked)
    assert caught.value.by is signal.SIGTERM
    assert isinstance(caught.value.so_far, Dot)
    assert caught.value.so_far.history.last_step == 5
    assert leporid.evaluate(caught.value.so_far, split, part="valid").mean()[
        "NDCG@10"
    ] == pytest.approx(caught.value.so_far.history.best_metric)
    steps = 100
    resumed = leporid.train(Dot, split, checkpoint=tmp_path, resume=True, **asked)
    assert steps == 104, "the first five steps are not repeated"
    whole = leporid.train(Dot, split, **asked)
    assert_same_bits(weights(resumed), weights(whole))


def test_a_killed_process_can_be_taken_up_to_the_bit(split: Split, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.toy", str(tmp_path)]
    environment = {**os.environ, "DIE_AT": "12"}
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=environment)
    assert process.wait(timeout=600) == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.safetensors"]
    resumed = DLR2(**KILLED).fit(
        split, seed=4, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
    )
    unbroken = DLR2(**KILLED).fit(split, seed=4, device="cpu")
    assert_same_bits(weights(resumed), weights(unbroken))


def vectors(split: Split, dim: int = 4) -> InitialEmbeddings:
    rng = np.random.default_rng(3)
    users, items = (
        Embedding(rng.normal(2.0, 3.0, (n, dim)).astype(np.float32))
        for n in (split.n_users, split.n_items)
    )
    return InitialEmbeddings(users, items)


@pytest.mark.parametrize("model", [Dot, DLR2])
def test_initial_vectors_survive_construction(split: Split, model: type[Dot]) -> None:
    given = vectors(split)
    made = model(dim=4, steps=3, freeze_steps=-1, init_scale=0.3, eval_every=0)
    made.fit(split, init=given, device="cpu")
    wanted = given.standardized(0.3)
    np.testing.assert_array_equal(made.net.users.weight.detach(), wanted.users.vectors)
    np.testing.assert_array_equal(made.net.items.weight.detach(), wanted.items.vectors)
    assert made.training_summary()["drift"] == [0.0, 0.0]


def test_vectors_of_the_random_initialiser_are_used_as_drawn(split: Split) -> None:
    given = vectors(split)
    random = InitialEmbeddings(
        given.users, Embedding(given.items.vectors, None, {"method": "random"})
    )
    made = Dot(dim=4, steps=1, freeze_steps=-1, eval_every=0).fit(split, init=random, device="cpu")
    np.testing.assert_array_equal(made.net.items.weight.detach(), given.items.vectors)


def test_a_model_that_overwrites_its_vectors_is_caught(split: Split) -> None:
    class Careless(Dot):
        def build(self, context: Any) -> Any:
            net = super().build(context)
            torch.nn.init.normal_(net.items.weight)
            return net

    with pytest.raises(LeporidError, match="overwrote initial embeddings"):
        Careless(dim=4).fit(split, init=vectors(split), device="cpu")


def test_vectors_of_the_wrong_size_are_refused(split: Split) -> None:
    with pytest.raises(ConfigError, match=r"shape \[23, 5\].*\[23, 4\]"):
        Dot(dim=4).fit(split, init=vectors(split, dim=5), device="cpu")


def test_frozen_tables_move_after_the_warm_up_only(split: Split) -> None:
    given = vectors(split)

    def drift(freeze: int) -> float:
        model = DLR2(**{**TINY, "steps": 6, "freeze_steps": freeze})
        model.fit(split, init=given, device="cpu")
        return float(model.training_summary()["drift"][1])

    assert drift(6) == drift(-1) == 0.0
    assert 0.0 < drift(5) < drift(0)


def test_the_best_weights_are_kept_and_training_stops_in_time(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([0.1, 0.4, 0.3, 0.4, 0.2, 0.9])
    kept: list[dict[str, Tensor]] = []
    model = Dot(dim=4, steps=60, batch_size=8, lr=0.05, eval_every=10, patience=3)

    def measure(*_: Any) -> float:
        kept.append(weights(model))
        return next(values)

    monkeypatch.setattr(validation, "measure", measure)
    model.fit(split, device="cpu")
    assert len(kept) == 5
    assert_same_bits(weights(model), kept[1])
    assert (model.history.best_step, model.history.best_metric) == (20, 0.4)
    assert [row["metric"] for row in model.history.rows if "metric" in row] == [
        0.1, 0.4, 0.3, 0.4, 0.2,
    ]  # fmt: skip


def test_more_validation_users_than_there_are_means_all_of_them(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[Split] = []

    def measure(model: Any, part: Split) -> float:
        parts.append(part)
        return 0.1

    monkeypatch.setattr(validation, "measure", measure)
    present = len(np.unique(split.valid.user))
    for asked, expected in ((present - 1, present - 1), (present, present), (present + 1, present)):
        Dot(dim=4, steps=1, batch_size=8, eval_every=1, eval_users=asked).fit(split, device="cpu")
        assert len(np.unique(parts[-1].valid.user)) == expected


def test_patience_counts_only_validations_since_the_best_one(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = iter([0.1, 0.05, 0.2, 0.1, 0.3, 0.2, 0.3, 0.9])
    monkeypatch.setattr(validation, "measure", lambda model, part: next(metrics))
    model = Dot(dim=4, steps=16, batch_size=8, eval_every=2, patience=2)
    model.fit(split, device="cpu")
    # A validation that is as good as the best one is no better.
    assert [row["step"] for row in model.history.rows] == [2, 4, 6, 8, 10, 12, 14]
    assert (model.history.best_step, model.history.best_metric) == (10, 0.3)


def test_the_progress_knows_where_patience_can_end_a_run(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    said: list[str] = []

    class Progress(ProgressLike):
        def advance(self, steps: int = 1, **fields: Any) -> None:
            notes.extend([fields["note"]] if fields else [])

        def say(self, line: str) -> None:
            said.append(line)

    def numbers(pattern: str) -> list[int | None]:
        """The number that follows some words in each line."""
        found = [re.search(pattern + r" (\d+)", note) for note in notes]
        return [int(match[1]) if match else None for match in found]

    class EveryFive(Callback):
        every = 5

    context = FitContext(
        device="cpu",
        progress=Progress(),
        callbacks=(EveryFive(),),
        baseline=BestBaseline("EASE", "NDCG@10", 0.3),
    )
    values = iter([0.1, 0.4, 0.3, 0.4, 0.2])
    monkeypatch.setattr(validation, "measure", lambda *_: next(values))
    model = Dot(dim=4, steps=60, batch_size=8, eval_every=10, patience=3)
    model.fit(split, context=context)
    # After 5 steps: the first validation is the best, three more may follow.
    assert numbers("stops at") == [40, 40, 40, 50, 50, 50, 50, 50, 50, 50]
    assert numbers("at most") == [60] * 10
    assert numbers("^step") == [*range(5, 51, 5)]
    assert numbers("first validation at step") == [10] + [None] * 9
    assert numbers("at step") == [10, 10, 10, 20, 20, 20, 20, 20, 20, 20]
    best = [re.search(r"best (0\.\d{4}) at step \d+, (\w+) than EASE \(0.3000\)", n) for n in notes]
    assert [match and match.groups() for match in best] == [
        None, *[("0.1000", "worse")] * 2, *[("0.4000", "better")] * 7,
    ]  # fmt: skip
    assert (model.history.ended, model.history.last_step) == ("patience", 50)
    assert said == [f"dot {model.history.describe()}"]
    assert said[0].startswith("dot stopped early, at step 50 of 60; best NDCG@10 0.4000 at step 20")

    notes.clear()
    nothing = split.valid.select(np.zeros(len(split.valid), bool))
    unvalidated = Split(split.train, nothing, split.test, split.protocol)
    late = Dot(dim=4, steps=20, batch_size=8, eval_every=5, patience=1)
    late.fit(unvalidated, context=context)
    assert numbers("ends at step") == [20] * 4
    assert set(numbers("first validation at step")) == set(numbers("stops at")) == {None}
    assert (late.history.ended, late.history.last_step) == ("steps", 20)


def test_averaged_weights_are_the_exponential_mean(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Dot(dim=4, steps=4, batch_size=8, lr=0.1, eval_every=0, ema_decay=0.75)
    seen: list[Tensor] = []
    plain = loop.update_ema

    def blend(average: Any, module: Any, decay: float) -> None:
        if not seen:
            seen.append(average["users.weight"].clone())
        seen.append(module.users.weight.detach().clone())
        plain(average, module, decay)

    monkeypatch.setattr(loop, "update_ema", blend)
    model.fit(split, device="cpu")
    mean = seen[0]
    for value in seen[1:]:
        mean = 0.75 * mean + 0.25 * value
    torch.testing.assert_close(model.net.users.weight.detach(), mean)
    assert not torch.equal(mean, seen[-1])


def test_a_shared_average_follows_the_length_of_the_run() -> None:
    """Of constant growth the average lags behind by the share of the steps so far."""
    config = TrainingConfig(ema_share=0.1)
    average, lags = 0.0, {}
    for step in range(1, 4001):
        keep = averaging(config, step)
        average = keep * average + (1 - keep) * step
        lags[step] = (step - average) / step
    assert averaging(config, 5) == 0
    # d/dt average = (t - average) / (0.1 t), which t / 1.1 solves.
    assert [lags[400], lags[4000]] == pytest.approx([0.1 / 1.1] * 2, rel=0.1)


def test_training_learns_and_is_repeatable(split: Split) -> None:
    settings = {"dim": 8, "steps": 150, "batch_size": 32, "lr": 0.05, "eval_every": 50}
    before = torch.get_rng_state()
    one = Dot(**settings).fit(split, seed=1, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert one.history.rows[-1]["loss"] < 0.8 * one.history.rows[0]["loss"]
    assert one.history.best_metric is not None
    assert_same_bits(weights(one), weights(Dot(**settings).fit(split, seed=1, device="cpu")))
    other = weights(Dot(**settings).fit(split, seed=2, device="cpu"))
    assert not torch.equal(weights(one)["users.weight"], other["users.weight"])


def test_a_checkpoint_of_another_run_is_refused(split: Split, tmp_path: Path) -> None:
    settings = {"dim": 4, "steps": 3, "eval_every": 0}
    Dot(**settings).fit(split, seed=1, device="cpu", context=FitContext(checkpoint=tmp_path))
    with pytest.raises(ConfigError, match=r'another run: its config is \{"lr": 0.001\}'):
        Dot(**settings, lr=0.1).fit(
            split, seed=1, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
        )
    with pytest.raises(ConfigError, match="its seed is 1, this run's is 2"):
        Dot(**settings).fit(
            split, seed=2, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
        )
    with pytest.raises(ConfigError, match="its start is"):
        Dot(**settings).fit(
            split,
            seed=1,
            device="cpu",
            init=vectors(split),
            context=FitContext(checkpoint=tmp_path, resume=True),
        )
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a file")
    with pytest.raises(DataError, match="not a safetensors file"):
        Dot(**settings).fit(
            split, seed=1, device="cpu", context=FitContext(checkpoint=tmp_path, resume=True)
        )


def test_history_is_written_as_csv(split: Split, tmp_path: Path) -> None:
    model = Dot(dim=4, steps=100, batch_size=8, eval_every=40).fit(split, device="cpu")
    model.history.to_csv(tmp_path / "history.csv")
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines[0] == "step,loss,lr,examples_per_second,seconds,metric"
    assert [line.split(",")[0] for line in lines[1:]] == ["40", "50", "80", "100"]


def test_epochs_shorten_a_run_on_a_small_log_and_spread_its_validations(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_MIN_STEPS", 4)
    examples = len(split.train)
    settings = {"dim": 4, "batch_size": 16, "eval_every": 20, "steps": 400}
    model = Dot(**settings, epochs=2.5).fit(split, seed=1, device="cpu")
    expected = math.ceil(2.5 * examples / 16)
    assert 4 < expected < 400
    rows = model.history.rows
    assert rows[-1]["step"] == expected
    assert rows[-1]["lr"] == pytest.approx(
        learning_rate(TrainingConfig(steps=expected), expected - 1)
    )
    apart = math.ceil(20 * expected / 400)
    judged = [row["step"] for row in rows if "metric" in row]
    assert judged == sorted({*range(apart, expected + 1, apart), expected})
    assert model.config.steps == 400


def test_epochs_leave_the_smallest_log_enough_steps(split: Split) -> None:
    model = Dot(dim=4, batch_size=64, eval_every=0, steps=800, epochs=0.01)
    assert model.fit(split, seed=1, device="cpu").history.rows[-1]["step"] == 750


def test_steps_that_were_asked_for_are_taken() -> None:
    assert DLR2().config.epochs > 0
    assert DLR2(steps=5000).config.epochs == 0
    assert DLR2(steps=5000, epochs=2.0).config.epochs == 2.0
    assert DLR2.from_recipe("paper").config.epochs > 0
    assert DLR2.from_recipe("softmax").config.epochs == 0
    assert DLR2(DLR2().config).config == DLR2().config


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", {0: 1.0, 50: 1.0, 99: 1.0}),
        ("cosine", {0: 1.0, 50: 0.5, 100: 0.0}),
        ("one-cycle", {0: 1 / 25, 30: 1.0, 65: (1 + 1e-4) / 2, 100: 1e-4}),
        ("inverse-root", {0: 1 / 200, 99: 0.5, 199: 1.0, 799: 0.5, 19_999: 0.1}),
    ],
)
def test_learning_rates_at_known_steps(schedule: Any, expected: dict[int, float]) -> None:
    config = TrainingConfig(steps=100, lr=2.0, schedule=schedule)
    for step, share in expected.items():
        assert learning_rate(config, step) == pytest.approx(2.0 * share)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("steps", 0),
        ("epochs", -1.0),
        ("lr", 0.0),
        ("freeze_steps", -2),
        ("ema_decay", 1.0),
    ],
)
def test_impossible_settings_are_refused(setting: str, value: float) -> None:
    with pytest.raises(ConfigError, match=setting):
        TrainingConfig(**{setting: value})


def test_a_metric_without_a_depth_is_refused(split: Split) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'F1@10'"):
        Dot(dim=4, metric="F1").fit(split, device="cpu")
