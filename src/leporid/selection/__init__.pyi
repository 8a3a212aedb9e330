from .budget import format_duration as format_duration
from .budget import parse_duration as parse_duration
from .choice import Choice as Choice
from .choice import choose as choose
