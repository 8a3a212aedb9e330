"""Short digests that name results: settings, cells of a grid, tuning studies."""

import hashlib
import json


def canonical_hash(value: object, length: int = 16) -> str:
    """Return a short hash of any value that JSON can hold, independent of key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]
