"""One file per rule family. A rule takes a ``Case`` and yields findings; ``webhook.core.dialects`` says whose it is."""
