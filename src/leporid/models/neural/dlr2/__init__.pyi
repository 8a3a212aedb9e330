from .config import DLR2Config as DLR2Config
from .model import DLR2 as DLR2
