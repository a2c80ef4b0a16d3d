"""Log lines: one JSON object each on one line, of short plain texts, never of whole objects of the cluster."""

import traceback
from typing import Any, BinaryIO, Final

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from webhook.wire.plain_text import plain

LEVELS: Final = ("debug", "info", "warning", "error")

_FRAMES_KEPT = 12


def open_log(stream: BinaryIO, level: str = "info") -> FilteringBoundLogger:
    """Return a logger that writes JSON lines of ``level`` and above to ``stream``.

    Nothing global is configured: the logger is passed to whoever logs. Text from requests is made printable here, so
    that no caller can forget it (a line break or an escape sequence in a pod's name stays a name).
    """
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _printable,
            structlog.processors.JSONRenderer(serializer=_dump),
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


def _printable(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and not (value.isprintable() and len(value) <= 200):
            event[key] = plain(value, 2000 if key == "fault_at" else 400)
    return event


def _dump(event: EventDict, **_options: Any) -> bytes:  # noqa: ANN401 - structlog passes json.dumps' options
    return orjson.dumps(event, default=str)
