"""RP3beta: P3alpha with popular targets held back (Paudel et al., TiiS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.p3alpha import P3Alpha, P3AlphaConfig


@dataclass(frozen=True, kw_only=True)
class RP3BetaConfig(P3AlphaConfig):
    top_k: int = setting(100, at_least=1)
    beta: float = 0.2
    """A target is divided by its popularity to this power; 0 is P3alpha."""


class RP3Beta(P3Alpha):
    """W_ij = sum_u P(u | i)^alpha P(j | u)^alpha / d_j^beta, d_j the popularity of j."""

    name = "rp3beta"
    config_class = RP3BetaConfig
    config: RP3BetaConfig
    search_space: ClassVar[SearchSpace] = {
        "top_k": Int(10, 1000, log=True),
        "alpha": Float(0.3, 1.8),
        "beta": Float(0.0, 1.2),
        "normalize": OneOf(False, True),
        **WINDOW_SPACE,
    }

    @property
    def popularity_exponent(self) -> float:
        return self.config.beta
