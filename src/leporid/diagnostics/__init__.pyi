from .doctor import examine as examine
from .doctor import self_tests as self_tests
