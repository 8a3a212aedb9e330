"""Settings that all neural models share."""

from __future__ import annotations

import pytest

from leporid import models
from leporid.errors import UnknownNameError

NEURAL = [name for name in models.available() if models.get(name).takes_initial_vectors]


@pytest.mark.parametrize("name", NEURAL)
def test_an_unknown_metric_is_refused_when_the_settings_are_made(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'NDCG@10'"):
        models.get(name).config_class.from_dict({"metric": "NDGC@10"})
