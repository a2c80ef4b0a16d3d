"""What gunicorn and other libraries have to say, as lines of our own log."""

import logging
import sys
from typing import Any

from webhook.service.logs import fault_text, open_log

_COURSE = (
    "Handling signal: ",
    "Using worker: ",
    "Booting worker",
    "Worker exiting",
    "Shutting down",
    "Starting gunicorn",
    "Listening at: ",
)


class LibraryLog(logging.Handler):
    """What libraries say to the standard library's loggers, as lines of our own log: one line each, no raw text."""

    def __init__(self, level: str) -> None:
        """Write to standard error what is a warning or worse, and of ``level`` or above."""
        super().__init__(logging.WARNING)
        self._log = open_log(sys.stderr.buffer, level)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; an exception is named by its kind, text and places."""
        error = record.exc_info[1] if record.exc_info else None
        fields = fault_text(error) if error is not None else {}
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say("library", logger=record.name, text=_message(record), **fields)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return f"{record.msg} {record.args!r}"


class GunicornLog:
    """The interface of ``gunicorn.glogging.Logger`` on a structured logger."""

    def __init__(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's Config is untyped
        """Open the log by gunicorn's ``cfg``."""
        self.setup(cfg)

    def setup(self, cfg: Any) -> None:  # noqa: ANN401 - as above
        """Take over the level of ``cfg``."""
        self.cfg = cfg
        self._log = open_log(sys.stderr.buffer, cfg.loglevel)

    def critical(self, message: object, *values: object, **_options: object) -> None:
        """Log an error that ends the process."""
        self._log.error("server", text=_text(message, values))

    def error(self, message: object, *values: object, **options: object) -> None:
        """Log an error; with ``exc_info`` the exception that is being handled."""
        fields = fault_text(error) if options.get("exc_info") and (error := sys.exc_info()[1]) else {}
        self._log.error("server", text=_text(message, values), **fields)

    def exception(self, message: object, *values: object, **_options: object) -> None:
        """Log the exception that is being handled."""
        self.error(message, *values, exc_info=True)

    def warning(self, message: object, *values: object, **_options: object) -> None:
        """Log something unusual."""
        self._log.warning("server", text=_text(message, values))

    def info(self, message: object, *values: object, **_options: object) -> None:
        """Log what happens; the course of an ordinary start and stop only for debugging."""
        text = _text(message, values)
        if text.startswith(_COURSE):
            self._log.debug("server", text=text)
        else:
            self._log.info("server", text=text)

    def debug(self, message: object, *values: object, **_options: object) -> None:
        """Log a detail."""
        self._log.debug("server", text=_text(message, values))

    def log(self, _level: int, message: object, *values: object, **_options: object) -> None:
        """Log at a level of the logging module."""
        self.info(message, *values)

    def access(self, *_values: object) -> None:
        """Log no access: verdicts are logged by the corridor."""

    def reopen_files(self) -> None:
        """Do nothing: the log is standard error."""

    def close_on_exec(self) -> None:
        """Do nothing, as above."""


def _text(message: object, values: tuple[object, ...]) -> str:
    if not values:
        return str(message)
    try:
        return str(message) % values
    except (TypeError, ValueError, KeyError):
        return f"{message} {values!r}"
