"""What tpu-tui needs of google-cloud-storage that is not public: the session of a client (the fuzzed answers of
`tests/cloud/test_buckets.py` need it: the library reads an answer's fields of a wrong type without a check).
"""

from __future__ import annotations

from typing import Any


def session_of(client: Any) -> Any:
    """Return the `requests` session through which a client sends everything."""
    return client._http
