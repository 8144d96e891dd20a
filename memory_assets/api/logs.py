"""The service's log on standard error, as one JSON object a line or as text; never a memory's text or a key."""

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any, Literal

from memory_assets.api.errors import request_id
from memory_assets.display import visible
from memory_assets.errors import format_trace

_PLAIN_FIELDS = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "request_id", "color_message", "taskName"}
"""Attributes of every log record; all others are extra fields of the caller."""


class JsonFormatter(logging.Formatter):
    """Formatter that writes a JSON object per record: time, level, logger, message, request_id and the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id(),
            **{name: value for name, value in record.__dict__.items() if name not in _PLAIN_FIELDS},
        }
        if record.exc_info and record.exc_info[1]:
            fields["exception"] = format_trace(record.exc_info[1])
        return json.dumps(fields, default=str)


class PrettyFormatter(logging.Formatter):
    """Formatter that writes a line per record, with the extra fields at the end."""

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = request_id()
        extras = " ".join(f"{name}={value}" for name, value in record.__dict__.items() if name not in _PLAIN_FIELDS)
        return visible(f"{super().format(record)}  {extras}".rstrip())

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return format_trace(ei[1])


def configure_logging(level: str, style: Literal["json", "pretty"]) -> None:
    """Send all logs of this process, including the HTTP server's, to standard error in one style."""
    pretty = {"()": PrettyFormatter, "format": "%(asctime)s %(levelname)-7s %(name)s [%(request_id)s] %(message)s"}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": JsonFormatter}, "pretty": pretty},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": style}},
            "root": {"handlers": ["stderr"], "level": level},
            "loggers": {name: {"level": "WARNING"} for name in ("uvicorn.access", "httpx", "watchfiles")},
        }
    )
