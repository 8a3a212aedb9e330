from .page import headline as headline
from .page import sentences as sentences
from .page import write_page as write_page
from .stages import DemoResult as DemoResult
from .stages import run_demo as run_demo
from .stages import two_towers as two_towers
