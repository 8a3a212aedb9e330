"""Gradients of a recorded step are those of the same operations launched one by one."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor

import leporid
from leporid.errors import LeporidError
from leporid.models import (
    Backward,
    Batch,
    NeuralRecommender,
    Sampler,
    TrainingData,
    own_generators,
    seed_default,
)

NEURAL = ("bpr", "ncf", "ngcf", "dgcf", "hgn", "lightgcn", "sasrec", "dlr2")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="records on a CUDA device")


@pytest.fixture(scope="module")
def split() -> leporid.Split:
    return leporid.temporal_split(leporid.synthesize(120, 80, 4000, seed=5))


def fitted(name: str, split: leporid.Split, device: str, **settings: object) -> NeuralRecommender:
    settings = {"steps": 1, "eval_every": 0, "dim": 16, "batch_size": 64, **settings}
    model = leporid.train(name, split, init="svd", seed=1, device=device, **settings)
    assert isinstance(model, NeuralRecommender)
    model.net.train()
    return model


def batches(model: NeuralRecommender, split: leporid.Split, count: int) -> list[Batch]:
    data = TrainingData.from_interactions(split.train, model.device)
    sampler = Sampler(data, model.sampling(), model.config.batch_size, seed=2)
    return [sampler.batch(step) for step in range(count)]


def gradients(model: NeuralRecommender) -> list[Tensor]:
    return [p.grad.clone() for p in model.net.parameters() if p.grad is not None]


def test_only_a_gpu_records_and_only_a_willing_model(
    split: leporid.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted("bpr", split, "cpu")
    assert not Backward(model).records
    monkeypatch.setattr(NeuralRecommender, "device", torch.device("cuda"))
    assert Backward(model).records
    monkeypatch.setattr(model, "config", model.config.replace(cuda_graph=False))
    assert not Backward(model).records
    monkeypatch.undo()
    monkeypatch.setattr(NeuralRecommender, "device", torch.device("cuda"))
    monkeypatch.setattr(type(model), "supports_cuda_graph", False)
    assert not Backward(model).records


def test_eager_clears_old_gradients(split: leporid.Split) -> None:
    model = fitted("bpr", split, "cpu")
    (batch,) = batches(model, split, 1)
    backward = Backward(model)
    loss, before = backward(batch), gradients(model)
    assert backward(batch).item() == loss.item()
    for a, b in zip(before, gradients(model), strict=True):
        torch.testing.assert_close(b, a)


def test_a_step_that_cannot_be_recorded_says_what_to_do(
    split: leporid.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted("bpr", split, "cpu")
    (batch,) = batches(model, split, 1)

    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(Backward, "_warm_up", lambda *_: None)
    monkeypatch.setattr("torch.cuda.CUDAGraph", refuse)
    monkeypatch.setattr("torch.cuda.device", contextlib.nullcontext)
    backward = Backward(model)
    backward.records = True
    with pytest.raises(LeporidError, match=r"bpr .* is capturing\): train with cuda_graph=False$"):
        backward(batch)


@needs_gpu
@pytest.mark.parametrize("name", NEURAL)
def test_recorded_gradients_equal_eager_ones(name: str, split: leporid.Split) -> None:
    quiet = {"ngcf": {"message_dropout": 0.0, "node_dropout": 0.0}, "sasrec": {"dropout": 0.0}}
    model = fitted(name, split, "cuda", precision="fp32", **quiet.get(name, {}))
    recorded = Backward(model)
    assert recorded.records
    buffers = {n: t.clone() for n, t in model.net.state_dict().items()}
    for step, batch in enumerate(batches(model, split, 3)):
        model.net.load_state_dict(buffers)
        seed_default(model.device, step)
        expected = recorded.eager(batch)
        wanted = gradients(model)
        model.net.load_state_dict(buffers)
        seed_default(model.device, step)
        found = recorded(batch)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
        for a, b in zip(gradients(model), wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@needs_gpu
def test_a_replay_draws_what_the_seed_says(split: leporid.Split) -> None:
    model = fitted("sasrec", split, "cuda", dropout=0.5)
    recorded = Backward(model)
    (batch,) = batches(model, split, 1)
    losses = []
    with own_generators(model.device):
        for seed in (7, 8, 7):
            seed_default(model.device, seed)
            losses.append(recorded(batch).item())
    assert losses[0] == pytest.approx(losses[2], rel=1e-5)
    assert abs(losses[0] - losses[1]) > 1e-4


@needs_gpu
def test_recording_leaves_running_statistics_alone_and_follows_freezing(
    split: leporid.Split,
) -> None:
    model = fitted("dlr2", split, "cuda")
    recorded = Backward(model)
    first, second = batches(model, split, 2)
    seen = "features.body.down.1.num_batches_tracked"
    before = int(model.net.state_dict()[seen])
    recorded(first)
    assert int(model.net.state_dict()[seen]) == before + 1
    for table in model.tables:
        table.weight.requires_grad_(False)
    recorded(second)
    assert all(table.weight.grad is None for table in model.tables)
    assert gradients(model)
