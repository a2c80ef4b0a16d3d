"""How a test starts our server."""

import pytest
from controlplane.processes import StartError


def test_a_server_that_does_not_start_is_told_with_its_log(webhook_server):
    with pytest.raises(StartError, match=r"^server ended with \d+ before an answer over TLS\. Its log ends:\n."):
        webhook_server(extra=("--no-such-option",))
