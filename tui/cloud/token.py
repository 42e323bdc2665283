"""`python -m tui.cloud.token`: print an access token of the application default credentials, for an IAP tunnel.

A separate process, like the credential helpers of kubectl and docker, so that its callers need no Google library.
"""

from __future__ import annotations

import sys
from typing import Any

from tui.cloud.api_errors import ApiRequest, explain
from tui.cloud.credentials import find_credentials
from tui.errors import TpuTuiError


def access_token() -> str:
    """Return a new access token. Raises CloudError naming the command that helps."""
    import google.auth.transport.requests
    from google.auth.exceptions import GoogleAuthError

    login = find_credentials()
    credentials: Any = login.credentials
    try:
        credentials.refresh(google.auth.transport.requests.Request())
    except GoogleAuthError as error:
        raise explain(error, ApiRequest("Identity-Aware Proxy cannot be used", login.project or "")) from None
    return str(credentials.token)


def main() -> int:
    """Print the token, or the reason why there is none."""
    try:
        print(access_token())
    except TpuTuiError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
