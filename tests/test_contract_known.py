"""Every model is tested with the same known items, or says that it saw less."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.data import Interactions, Sequences, Split
from leporid.evaluation import evaluate
from leporid.models import Recommender
from leporid.models.closed_form.profiles import ProfileRecommender
from tests.test_contract import ALL, N_ITEMS, SETTINGS, fit, make, make_split, shared

USER = 9


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.fixture(scope="module", params=list(SETTINGS))
def fitted(request: pytest.FixtureRequest) -> Recommender:
    return shared(request.param)


def with_another_validation_part(split: Split) -> Split:
    """The validation items of `USER` are others, which the user does not have."""
    valid, item = split.valid, split.valid.item.copy()
    mine = np.concatenate([split.train_valid.sequences().of(USER), split.test.sequences().of(USER)])
    free = np.setdiff1d(np.arange(N_ITEMS), mine)
    places = np.flatnonzero(valid.user == USER)
    item[places] = free[: len(places)]
    changed = Interactions(valid.user, item, valid.time, valid.users, valid.items)
    return Split(split.train, changed, split.test, split.protocol)


def test_scores_rest_on_what_the_model_says_it_sees(fitted: Recommender, split: Split) -> None:
    changed = with_another_validation_part(split)
    before = fitted.score(ALL, split.known("test").sequences())
    after = fitted.score(ALL, changed.known("test").sequences())
    others = ALL != USER
    np.testing.assert_array_equal(after[others], before[others])
    assert np.array_equal(after[USER], before[USER]) != fitted.reads_history


def test_without_a_history_everything_known_counts(fitted: Recommender, split: Split) -> None:
    known = split.train_valid.sequences()
    np.testing.assert_array_equal(fitted.score(ALL), fitted.score(ALL, known))


def test_a_split_is_judged_from_what_is_known_at_that_moment(
    fitted: Recommender, split: Split
) -> None:
    for part, known in (("valid", split.train), ("test", split.train_valid)):
        found = evaluate(fitted, split, part=part)  # type: ignore[arg-type]
        scores = fitted.score(ALL, known.sequences())
        np.testing.assert_array_equal(found.top, evaluate(scores, split, part=part).top)  # type: ignore[arg-type]


PROFILES = [
    "userknn", "itemknn", "slim", "ease", "p3alpha", "rp3beta", "ials", "gfcf", "turbocf",
]  # fmt: skip


@pytest.mark.parametrize("name", PROFILES)
def test_a_window_keeps_the_newest_items(name: str, split: Split) -> None:
    model = make(name, window=2).fit(split, seed=3)
    assert isinstance(model, ProfileRecommender)
    assert "window" in model.search_space
    known = split.train_valid.sequences()
    newest = Sequences.from_rows([known.of(user)[-2:] for user in ALL])
    whole = shared(name)
    np.testing.assert_array_equal(model.score(ALL), whole.score(ALL, newest))
    assert not np.array_equal(model.score(ALL), whole.score(ALL))
    histories = [np.array([4, 0, 9, 2], np.int32), np.array([7], np.int32)]
    np.testing.assert_array_equal(
        model.score_histories(histories), whole.score_histories([h[-2:] for h in histories])
    )


@pytest.mark.parametrize("name", [*PROFILES, "transitions"])
def test_someone_of_whom_nothing_is_known_gets_the_popular_items(name: str, split: Split) -> None:
    model = shared(name)
    popularity = np.bincount(split.train.item, minlength=N_ITEMS)
    known = split.train_valid.sequences()
    rows = [known.of(user) if user != USER else known.of(user)[:0] for user in ALL]
    scores = model.score(ALL, Sequences.from_rows(rows))
    np.testing.assert_array_equal(scores[USER], popularity)
    others = ALL != USER
    np.testing.assert_array_equal(scores[others], model.score(ALL)[others])
    np.testing.assert_array_equal(model.score_histories([rows[USER]])[0], popularity)


@pytest.mark.parametrize("name", [*PROFILES, "transitions"])
def test_fitting_reads_the_training_part_alone(name: str, split: Split) -> None:
    other = fit(name, with_another_validation_part(split))
    known = split.train_valid.sequences()
    np.testing.assert_array_equal(other.score(ALL, known), shared(name).score(ALL, known))
