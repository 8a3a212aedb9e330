from .config import TrainingConfig as TrainingConfig
from .history import TrainingHistory as TrainingHistory
from .loop import train_loop as train_loop
from .sampler import Batch as Batch
from .sampler import Sampler as Sampler
from .sampler import Sampling as Sampling
