from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import leporid
from examples.shop import main, synthesize_shop
from leporid.errors import ConfigError


@pytest.fixture(scope="module")
def shop() -> tuple[pa.Table, pa.Table]:
    return synthesize_shop(seed=3)


def test_carts_follow_views_and_purchases_follow_carts(shop: tuple[pa.Table, pa.Table]) -> None:
    first: dict[tuple[int, int, str], int] = {}
    for row in shop[0].to_pylist():
        first.setdefault((row["user_id"], row["item_id"], row["event"]), row["timestamp"])
    before = {"cart": "view", "purchase": "cart", "return": "purchase"}
    for (user, item, event), time in first.items():
        if event in before:
            assert first[user, item, before[event]] < time


def test_most_purchases_are_repeats_and_few_are_sent_back(shop: tuple[pa.Table, pa.Table]) -> None:
    events = shop[0]
    kinds = Counter(events["event"].to_pylist())
    assert kinds["view"] == 20_000 > kinds["purchase"] > kinds["return"] > 0
    bought = events.filter(pc.equal(events["event"], "purchase"))
    pairs = set(zip(bought["user_id"].to_pylist(), bought["item_id"].to_pylist(), strict=True))
    assert 0.5 < 1 - len(pairs) / len(bought) < 0.8


def test_items_have_prices_and_some_have_no_events(shop: tuple[pa.Table, pa.Table]) -> None:
    events, items = shop
    assert items["item_id"].to_pylist() == list(range(400))
    assert min(items["price"].to_pylist()) > 0
    unseen = 400 - len(np.unique(events["item_id"]))
    assert 20 <= unseen < 60


def test_the_same_seed_gives_the_same_shop(shop: tuple[pa.Table, pa.Table]) -> None:
    again, other = synthesize_shop(seed=3), synthesize_shop(seed=4)
    assert again[0].equals(shop[0])
    assert again[1].equals(shop[1])
    assert not other[0].equals(shop[0])


def test_a_shop_needs_items_of_every_category() -> None:
    with pytest.raises(ConfigError, match="16 items or more"):
        synthesize_shop(10, 8, 100)


def test_the_program_writes_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "shop.csv"
    sizes = ["--users", "50", "--items", "40", "--views", "500"]
    monkeypatch.setattr("sys.argv", ["shop", str(log), *sizes])
    main()
    assert leporid.load(log, progress=False).n_users <= 50
    assert (tmp_path / "shop-items.csv").read_text().startswith("item_id,title,category,price")
