from .base import InitialEmbeddings as InitialEmbeddings
from .base import Initializer as Initializer
from .base import InitializerConfig as InitializerConfig
from .catalogue import available as available
from .catalogue import get as get
from .catalogue import register as register
from .starting import start as start
