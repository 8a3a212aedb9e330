"""Honest mistakes: each gets one sentence at once, from every public function."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leporid
from leporid.embeddings import initial_embeddings
from leporid.errors import ConfigError, DataError, LeporidError, UnknownIdError
from leporid.foundation import check_device, check_output_file, check_output_folder
from leporid.ranking import Rules, write_recommendations

DATA = leporid.synthesize(users=40, items=25, interactions=500, seed=1)
SPLIT = leporid.temporal_split(DATA)
FRAME = pd.DataFrame({"user": DATA.user, "item": DATA.item, "time": DATA.time})
MODEL = leporid.train("itemknn", SPLIT, progress=False)
ITEMS, _ = MODEL.recommend([1, 2], n=10)
VECTORS: Any = initial_embeddings("svd", SPLIT.train, dim=4, cache=False)


def network() -> Any:
    torch = pytest.importorskip("torch")
    net = torch.nn.Module()
    net.u, net.i = torch.nn.Embedding(40, 4), torch.nn.Embedding(25, 4)
    return net


def initialize(**changes: Any) -> Any:
    return leporid.initialize(network(), "u", "i", **{"embeddings": VECTORS, **changes})


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    return function, arguments, options


WRONG: list[Call] = [
    call(initial_embeddings, "leporid", SPLIT),
    call(initial_embeddings, "leporid", None),
    call(initial_embeddings, 5, DATA),
    call(initial_embeddings, "leporid", DATA, cache="no"),
    call(initial_embeddings, "leporid", DATA, dim=4, device="gpu"),
    call(leporid.knn_graph, SPLIT),
    call(leporid.knn_graph, None),
    call(leporid.knn_graph, DATA, k="10"),
    call(leporid.knn_graph, DATA, k=2.5),
    call(leporid.knn_graph, DATA, device=None),
    call(leporid.knn_graph, DATA, threads="2"),
    call(leporid.knn_graph, DATA, side="user"),
    call(leporid.Leporid().fit, SPLIT),
    *(
        call(leporid.Leporid(**{"dim": 4, name: value}).fit, DATA)
        for name, value in {
            "dim": "4", "k": None, "alpha": "x", "tol": "x", "seed": "x", "threads": "x",
            "normalized": "x", "landmarks": "x", "device": "gpu",
        }.items()
    ),
    call(leporid.train, 5, SPLIT),
    call(leporid.train, SPLIT, "toppop"),
    call(leporid.train, "toppop", FRAME),
    *(call(leporid.train, "bpr", SPLIT, init) for init in (5, FRAME, VECTORS.users)),
    *(
        call(leporid.train, "bpr", SPLIT, **{"steps": 2, "progress": False, name: value})
        for name, value in (
            ("seed", "x"), ("seed", -1), ("seed", None), ("seed", 1.5), ("recipe", 3),
            ("init_settings", "dim=3"), ("device", "gpu"), ("device", 0), ("device", None),
            ("device", "cuda:x"), ("checkpoint", 5), ("checkpoint", __file__), ("resume", "yes"),
            ("final", "yes"), ("include_seen", "no"), ("items", 5), ("features", "x"),
            ("callbacks", 5), ("callbacks", [5]), ("include_seeen", True), ("sed", 3),
            ("steps", "5"), ("steps", None), ("steps", FRAME), ("steps", np.array([5])),
        )
    ),
    *(
        call(leporid.evaluate, MODEL, SPLIT, **{name: value})
        for name, value in (
            ("at", 5), ("at", "5"), ("at", None), ("at", ["5"]), ("at", {5: 5}), ("part", "tests"),
            ("part", None), ("part", ["test"]), ("metrics", "HR"), ("metrics", 5),
            ("metrics", [5]), ("batch_size", "x"), ("include_seen", "no"), ("exclude_seen", 3),
            ("rules", {"only": {}}), ("metric", ["HR"]),
        )
    ),
    call(leporid.evaluate, type(MODEL), SPLIT),
    call(leporid.evaluate, FRAME, SPLIT),
    call(leporid.probe, VECTORS, FRAME),
    call(leporid.probe, VECTORS, SPLIT, last="x"),
    call(leporid.probe, VECTORS.users, SPLIT),
    call(leporid.probe, None, SPLIT),
    *(call(MODEL.recommend, users) for users in (FRAME, None, 1.5, [[1, 2]], {1: 2}, [None])),
    *(call(MODEL.recommend, 1, n=n) for n in ("10", -1, 0, 2.5, None, [3], True)),
    call(MODEL.recommend, 1, include_seen="no"),
    call(MODEL.recommend, 1, include_seen=True, exclude_seen=False),
    call(MODEL.recommend, 1, include_sen=True),
    call(MODEL.recommend, 1, only=5.5),
    call(MODEL.recommend, 1, exclude=ITEMS),
    call(MODEL.recommend, 1, rules={"only": 1}),
    *(
        call(MODEL.recommend_history, history)
        for history in (None, 5, "5", FRAME, {1: [5]}, [[[5]]], [[5], 5], [None])
    ),
    call(MODEL.recommend_history, [1, 2], n="3"),
    call(MODEL.recommend_frame, FRAME[["time"]].assign(other=1)),
    call(MODEL.recommend_frame, [1], unknown="ignore"),
    call(MODEL.recommend, 1, only=[[3], [5]]),
    call(MODEL.score_pairs, [1, 2]),
    call(MODEL.score_pairs, FRAME.assign(score=1.0)),
    call(MODEL.score_pairs, FRAME, unknown="popular"),
    *(call(MODEL.similar_users, users) for users in (None, FRAME, 5.5)),
    call(MODEL.recommend_frame, n=-3),
    *(call(MODEL.similar_items, items) for items in (None, FRAME, ITEMS, 5.5)),
    *(call(MODEL.explain, 1, item) for item in (ITEMS[0], FRAME, None, [5])),
    call(MODEL.explain, FRAME, 5),
    call(MODEL.explain, None, 5),
    call(MODEL.explain, 1, 5, n="3"),
    call(MODEL.extend, FRAME),
    call(MODEL.save, None),
    call(MODEL.save, __file__),
    call(leporid.Recommender.load, 5),
    call(leporid.Recommender.load, None),
    call(leporid.Recommender.load, MODEL),
    call(leporid.Split.load, None),
    call(SPLIT.save, 5),
    call(write_recommendations, MODEL, 5),
    call(write_recommendations, MODEL, f"{__file__}/x.csv"),
    call(leporid.tune, 5, SPLIT),
    *(
        call(leporid.tune, "itemknn", SPLIT, **{"trials": 1, name: value})
        for name, value in (
            ("trials", "3"), ("trials", None), ("trials", 1.5), ("trials", 0), ("metric", 10),
            ("metric", None), ("seed", "x"), ("seed", -1), ("storage", 5),
            ("storage", f"{__file__}/x.jsonl"), ("space", 5), ("space", {"k": 5}),
            ("space", {"k": [5, 10]}), ("init", "leporid"), ("inner_validation", "x"),
            ("include_seen", "x"), ("trial", 3), ("device", "gpu"),
        )
    ),
    *(
        call(leporid.choose, SPLIT, **{"budget": "2s", "models": ["toppop"], name: value})
        for name, value in (
            ("budget", None), ("budget", [5]), ("models", 5), ("models", "toppop"), ("models", []),
            ("metric", 5), ("output", 5), ("output", __file__), ("protocol", "x"), ("seed", "x"),
            ("seed", -1), ("device", "gpu"), ("items", 5), ("items", "/nope.csv"), ("modles", []),
        )
    ),
    *(
        call(initialize, **{name: value})
        for name, value in (
            ("scale", [1]), ("standardize", "x"), ("padding_idx", "x"), ("embeddings", FRAME),
            ("user", "u"),
        )
    ),
    *(
        call(leporid.load, FRAME, **{name: value})
        for name, value in (
            ("user", 3.5), ("user", ["user"]), ("min_rating", "x"), ("weights", 5),
            ("target_events", 5), ("duplicates", None), ("usr", "user"),
        )
    ),
    call(leporid.temporal_split, SPLIT),
    call(leporid.temporal_split, DATA, "0.7"),
    call(leporid.temporal_split, DATA, None),
    call(leporid.temporal_split, DATA, seed="x"),
    call(leporid.random_split, DATA, seed=None),
    call(leporid.global_time_split, DATA, "2000"),
    call(leporid.global_time_split, DATA, valid="x"),
    call(leporid.cold_items_split, DATA, "x"),
    call(leporid.cold_items_split, DATA, 0.2, trian=0.5),
    call(leporid.synthesize, "5"),
    call(leporid.synthesize, 5, 5, 10.5),
    call(leporid.synthesize, 5, 5, 10, seed=-1),
    call(leporid.synthesize, user=5),
    call(DATA.core, "5"),
    call(Rules.read, 5),
]  # fmt: skip


def name_of(wrong: Call) -> str:
    function, arguments, options = wrong
    given = [type(value).__name__ for value in arguments]
    return f"{function.__name__}-{'-'.join(given)}-{'-'.join(options)}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("wrong", WRONG, ids=name_of)
def test_a_wrong_value_gets_one_sentence(wrong: Call) -> None:
    function, arguments, options = wrong
    with pytest.raises(LeporidError) as caught:
        function(*arguments, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert 10 < len(said) < 400


def test_a_data_frame_is_a_log() -> None:
    log = leporid.load(FRAME, progress=False)
    of_frame: Any = initial_embeddings("svd", FRAME, dim=4, cache=False)
    of_log: Any = initial_embeddings("svd", log, dim=4, cache=False)
    np.testing.assert_array_equal(of_frame.items.vectors, of_log.items.vectors)
    graph, expected = leporid.knn_graph(FRAME, k=5), leporid.knn_graph(log, k=5)
    np.testing.assert_array_equal(graph.indices, expected.indices)
    estimator = leporid.Leporid(dim=4).fit(FRAME)
    np.testing.assert_array_equal(estimator.embedding_, leporid.Leporid(dim=4).fit(log).embedding_)
    with pytest.raises(LeporidError, match=r"give it\s+leporid\.load\(table\)\.csr\(\)"):
        estimator.transform(FRAME)
    numbers = pd.DataFrame(log.csr().toarray())
    np.testing.assert_array_equal(leporid.knn_graph(numbers, k=5).indices, expected.indices)


def test_a_split_is_answered_with_its_training_part() -> None:
    wrong: Any = SPLIT
    for call in (leporid.knn_graph, leporid.Leporid().fit, leporid.temporal_split):
        with pytest.raises(LeporidError, match=r"not a Split: give it split\.train"):
            call(wrong)
    with pytest.raises(LeporidError, match=r"not a Split: give it split\.train"):
        initial_embeddings("leporid", wrong)


def test_numbers_of_numpy_are_numbers() -> None:
    model = leporid.train("itemknn", SPLIT, seed=np.int64(3), k=np.int64(5), progress=False)
    assert model.config.to_dict()["k"] == 5
    assert len(model.recommend(np.int64(1), n=np.int64(3))[0]) == 3
    at_five = leporid.evaluate(model, SPLIT, at=np.array([5])).mean()
    assert at_five == leporid.evaluate(model, SPLIT, at=(5,)).mean()
    cold = leporid.cold_items_split(DATA, 0.2, train=0.5)
    assert "temporal(0.5, 0.1)" in cold.protocol


def test_a_device_is_checked_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="did you mean 'cuda'"):
        check_device("gpu")
    for device in ("auto", "cpu", torch.device("cpu")):
        check_device(device)

    def no_work(*_: Any, **__: Any) -> Any:
        raise AssertionError("work began")

    monkeypatch.setattr("leporid.models.training.fit_init", no_work)
    monkeypatch.setattr("leporid.selection.choice.open_journal", no_work)
    monkeypatch.setattr("leporid.runs.tuning.Journal", no_work)
    absent = r"device 'cuda' is not there: torch finds no GPU"
    with pytest.raises(ConfigError, match=absent):
        leporid.train("bpr", SPLIT, device="cuda")
    with pytest.raises(ConfigError, match=absent):
        leporid.tune("bpr", SPLIT, device="cuda")
    with pytest.raises(ConfigError, match=absent):
        leporid.choose(SPLIT, "5s", device="cuda")
    with pytest.raises(ConfigError, match=absent):
        initial_embeddings("netmf", SPLIT.train, device="cuda")


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_device("cuda:1")
    with pytest.raises(ConfigError, match=r"'cuda:2' is not there: .* cuda:0 to cuda:1"):
        check_device("cuda:2")


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    check_output_folder(tmp_path / "new" / "folder")
    check_output_file(file)
    check_output_file(tmp_path / "new" / "file.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(DataError, match="it is a file, choose a folder"):
        check_output_folder(file)
    with pytest.raises(DataError, match=r"file is no folder, choose another place"):
        check_output_folder(file / "below")
    with pytest.raises(DataError, match="it is a folder, give the name of a file"):
        check_output_file(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(DataError, match=r"only 1\.0 MB are free on its disk, and 10 MB"):
        check_output_folder(tmp_path / "new")

    def denied(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    with pytest.raises(DataError, match=r"nothing can be written into .*Permission denied"):
        check_output_file(tmp_path / "new.csv")


def test_include_seen_is_the_word_and_exclude_seen_its_opposite(tmp_path: Path) -> None:
    shown = {seen: MODEL.recommend(1, 25, include_seen=seen)[0].tolist() for seen in (True, False)}
    assert None in shown[False]
    assert None not in shown[True]
    for seen in (True, False):
        again = MODEL.recommend(1, 25, exclude_seen=not seen)[0].tolist()  # type: ignore[call-arg]
        table = leporid.evaluate(MODEL, SPLIT, exclude_seen=not seen)  # type: ignore[call-arg]
        assert again == shown[seen]
        assert table.include_seen is seen
        frame = MODEL.recommend_frame([1], 25, include_seen=seen)
        rows = write_recommendations(MODEL, tmp_path / "x.csv", [1], 25, include_seen=seen)
        assert len(frame) == rows == len([item for item in shown[seen] if item is not None])
    assert MODEL.recommend(1, 25)[0].tolist() == shown[False]


def test_several_ids_in_place_of_one() -> None:
    with pytest.raises(DataError, match="give one item id, not an array of 10"):
        MODEL.explain(1, ITEMS[0])
    with pytest.raises(DataError, match=r"give item ids, not a DataFrame: .* table\['item'\]"):
        MODEL.similar_items(FRAME)
    with pytest.raises(DataError, match="recommend_frame takes frames"):
        MODEL.recommend(FRAME)
    with pytest.raises(UnknownIdError, match="unknown item 99"):
        MODEL.explain(1, 99)
    with pytest.raises(ConfigError, match="itemknn has no embedding tables to extend"):
        MODEL.extend(FRAME)
