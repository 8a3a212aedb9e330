from .stages import DemoResult as DemoResult
from .stages import DemoSettings as DemoSettings
from .stages import run_demo as run_demo
from .stages import write_page as write_page
