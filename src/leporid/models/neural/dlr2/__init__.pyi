from .model import DLR2 as DLR2
from .network import DLR2Config as DLR2Config
