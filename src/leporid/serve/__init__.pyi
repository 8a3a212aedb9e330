from .app import create_app as create_app
from .schemas import ServeLimits as ServeLimits
from .server import serve_forever as serve_forever
from .store import Event as Event
from .store import EventStore as EventStore
from .store import merged_log as merged_log
from .store import open_store as open_store
