"""The error that keeps a server from starting; in a module of its own, so that naming it imports nothing heavy."""


class StartError(Exception):
    """The server cannot start; ``str`` is plain sentences, one a line."""
