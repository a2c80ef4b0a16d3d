"""Log lines: one JSON object each on one line, of short plain texts, never of whole objects of the cluster."""

import traceback
from datetime import UTC, datetime
from typing import BinaryIO, Final

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from webhook.core.plain_text import plain

LEVELS: Final = ("debug", "info", "warning", "error")

_FRAMES_KEPT = 12
_SHORT_CHARACTERS = 200
_LONG_CHARACTERS = 400
_PLACES_CHARACTERS = 2000


def open_log(stream: BinaryIO, level: str = "info") -> FilteringBoundLogger:
    """Return a logger that writes JSON lines of ``level`` and above to ``stream``.

    Nothing global is configured: the logger is passed to whoever logs. Text from requests is made printable here, so
    that no caller can forget it (a line break or an escape sequence in a pod's name stays a name).
    """
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream),
        processors=[
            _line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return logger


def fault_text(fault: BaseException) -> dict[str, str]:
    """Return the fields that describe an internal fault: kind, text, and the places in our code, without values."""
    frames = traceback.extract_tb(fault.__traceback__)[-_FRAMES_KEPT:]
    where = " < ".join(f"{_short(frame.filename)}:{frame.lineno}:{frame.name}" for frame in reversed(frames))
    return {"fault": type(fault).__name__, "fault_text": str(fault), "fault_at": where}


def _short(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _line(_logger: WrappedLogger, level: str, event: EventDict) -> bytes:
    """Return the line: the event, its moment and level, and whatever the caller gave, every text printable.

    One processor instead of structlog's chain of four, at less than half the time.
    """
    for key, value in event.items():
        if isinstance(value, str) and not (value.isprintable() and len(value) <= _SHORT_CHARACTERS):
            event[key] = plain(value, _PLACES_CHARACTERS if key == "fault_at" else _LONG_CHARACTERS)
    return orjson.dumps({"time": datetime.now(UTC), "level": level, **event}, _plain_of, orjson.OPT_UTC_Z)


def _plain_of(value: object) -> str:
    """Return what is no JSON value as a short text."""
    return plain(str(value), _LONG_CHARACTERS)
