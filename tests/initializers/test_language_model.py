"""`text_vectors`: a local model's vectors by item id, and nothing from the network."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from leporid.data import IdMap, item_features
from leporid.errors import DataError, MissingExtraError, UnknownNameError
from leporid.initializers import text_vectors

TABLE = {
    "item_id": [3, 5, 7, 9],
    "title": ["red apple pie", "green apple", None, "steam engine"],
    "genres": [["food", "sweet"], ["food"], [], ["machines"]],
    "year": [1999, 2001, 2003, 2005],
}


class Lengths:
    """Stands in for a model: how often four letters occur."""

    texts: list[str]
    asked: dict[str, Any]

    def __init__(self, folder: str, **options: Any) -> None:
        if not Path(folder, "modules.json").is_file():
            raise OSError("no modules.json")
        type(self).asked = options

    def encode(self, texts: list[str], **options: Any) -> Any:
        type(self).texts = texts
        return np.array([[text.count(letter) for letter in "aegs"] for text in texts], np.float64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stub = SimpleNamespace(SentenceTransformer=Lengths)
    monkeypatch.setitem(sys.modules, "sentence_transformers", stub)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "modules.json").write_text("[]")
    return tmp_path / "model"


def test_texts_and_categories_are_joined_and_empty_rows_have_no_vector(
    folder: Path, tmp_path: Path
) -> None:
    made = text_vectors(TABLE, folder)
    assert Lengths.texts == [
        "red apple pie. food, sweet",
        "green apple. food",
        "steam engine. machines",
    ]
    assert Lengths.asked["local_files_only"] is True
    assert made["item_id"].to_pylist() == [3, 5, 7, 9]
    assert made["vector"].to_pylist()[1:3] == [[1, 3, 1, 0], None]
    # The file it becomes is content like any other.
    pq.write_table(made, tmp_path / "vectors.parquet")
    with pytest.warns(match="1 items without content"):
        features = item_features(
            IdMap.from_values([3, 5, 7, 9], "item"), tmp_path / "vectors.parquet"
        )
    assert features.kinds == {"vector": "vector"}
    assert features.known.tolist() == [True, True, False, True]
    text_vectors(TABLE, folder, ["genres", "title"])
    assert Lengths.texts[0] == "food, sweet. red apple pie"


def test_what_cannot_be_read_is_said_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing is downloaded"):
        text_vectors(TABLE, "sentence-transformers/all-MiniLM-L6-v2")
    with pytest.raises(DataError, match=r"holds no sentence-transformers model: no modules\.json"):
        text_vectors(TABLE, tmp_path)
    with pytest.raises(UnknownNameError, match="titel"):
        text_vectors(TABLE, folder, ["titel"])
    with pytest.raises(DataError, match="no column of text"):
        text_vectors({"item_id": [1, 2], "year": [3, 4]}, folder)
    with pytest.raises(DataError, match="is empty"):
        text_vectors({"item_id": [1, 2], "title": ["", None]}, folder)


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"leporid\[text\]"):
        text_vectors(TABLE, tmp_path)


@pytest.mark.slow
def test_a_real_model_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "the extra 'text' (sentence-transformers) is not installed"
    package = pytest.importorskip("sentence_transformers", reason=why)
    transformers = pytest.importorskip("transformers", reason=why)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "apple", "pie", "steam"]
    bert = tmp_path / "bert"
    bert.mkdir()
    (bert / "vocab.txt").write_text("\n".join(words))
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(words), intermediate_size=16, **shape)
    transformers.BertModel(config).save_pretrained(bert)
    transformers.BertTokenizerFast(str(bert / "vocab.txt")).save_pretrained(bert)
    parts = package.models
    word = parts.Transformer(str(bert))
    pooling = parts.Pooling(word.get_word_embedding_dimension())
    model = package.SentenceTransformer(modules=[word, pooling], device="cpu")
    model.save(str(tmp_path / "model"))
    made = text_vectors(TABLE, tmp_path / "model", ["title"], device="cpu")
    vectors = made["vector"].to_pylist()
    assert vectors[2] is None
    expected = model.encode(["red apple pie", "green apple", "steam engine"])
    np.testing.assert_allclose([v for v in vectors if v], expected, atol=1e-5)
