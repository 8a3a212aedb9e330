"""`leporid`: eigenmaps with popularity regularisation (Eq. 8 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from leporid.config import setting
from leporid.initializers.spectral_sides import SpectralConfig, SpectralInitializer
from leporid.spectral import Leporid


@dataclass(frozen=True, kw_only=True)
class LEPORIDConfig(SpectralConfig):
    """Settings of `LEPORID`."""

    alpha: float = setting(0.5, at_least=0, at_most=1)
    """How much of a node's degree is replaced by the largest degree; 0 is plain LE."""


class LEPORID(SpectralInitializer):
    """Eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2."""

    name = "leporid"
    config_class = LEPORIDConfig
    estimator_class = Leporid
