"""The time service (seed 001, section 6): shows times stored in UTC in the user's time zone. `intervals` parses times."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import PlainSerializer, WithJsonSchema

from memory_assets.errors import InvalidInputError, SettingsError

if TYPE_CHECKING:
    from memory_assets.settings import Settings

GEOIP_TIMEOUT_S = 2.0

Instant = Annotated[
    datetime,
    PlainSerializer(lambda moment: moment.astimezone(UTC).isoformat(), return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]
"""A time in a response: ISO 8601 in UTC with its offset, as seed 001 defines it."""

_AGES = (
    ("year", timedelta(days=365)),
    ("month", timedelta(days=30)),
    ("week", timedelta(days=7)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)


def display_zone(settings: "Settings", timezone: str | None = None) -> ZoneInfo:
    """Return the zone in which times are read and shown: the request's `timezone`, the settings', geoip's, the machine's, or UTC.

    The geoip service returns the caller's zone as text or as JSON with `timezone` or `time_zone`; if it fails it is skipped.
    """
    if timezone:
        if zone := _zone(timezone):
            return zone
        raise InvalidInputError(f"timezone {timezone!r} is unknown: give an IANA name such as Europe/Berlin or UTC.")
    if configured := settings.timezone:
        if zone := _zone(configured):
            return zone
        raise SettingsError(
            f"POND_TIMEZONE is {configured!r}, which is unknown: set an IANA name such as Europe/Berlin, or unset it."
        )
    looked_up = _geoip_zone(settings.geoip_url) if settings.geoip_url else None
    return looked_up or _system_zone() or ZoneInfo("UTC")


_NOT_IN_DUCKDB = ("localtime", "posix", "right/")
"""Beginnings of names of the zone database that DuckDB does not know."""


def _zone(name: str) -> ZoneInfo | None:
    try:
        return None if name.strip().startswith(_NOT_IN_DUCKDB) else ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of the zone database is an OSError
        return None


@lru_cache(maxsize=8)
def _geoip_zone(url: str) -> ZoneInfo | None:
    from pydantic import TypeAdapter, ValidationError

    from memory_assets.http import Service, ServiceError

    try:
        found = Service(url, timeout=GEOIP_TIMEOUT_S).send("GET", url)
    except (ValueError, ServiceError):
        return None
    try:
        answer = TypeAdapter(dict[str, object] | str).validate_json(found.content)
    except ValidationError:
        answer = found.text
    if isinstance(answer, dict):
        answer = answer.get("timezone") or answer.get("time_zone")
    return _zone(answer) if found.ok and isinstance(answer, str) else None


def _system_zone() -> ZoneInfo | None:
    import tzlocal

    try:
        return _zone(tzlocal.get_localzone_name())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def relative_age(then: datetime, now: datetime) -> str:
    """Return the age of `then` in its largest whole unit: "just now", "3 hours ago", or "in 3 hours" for the future."""
    gap = abs(now - then)
    for unit, length in _AGES:
        if count := gap // length:
            spoken = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"{spoken} ago" if then < now else f"in {spoken}"
    return "just now"


def day_in(moment: datetime, zone: tzinfo) -> date:
    """Return the day to show for a moment. Midnight in UTC means a day without a time, as files and sentences state it."""
    utc = moment.astimezone(UTC)
    return utc.date() if utc.time() == time() else moment.astimezone(zone).date()


def format_local(moment: datetime, zone: tzinfo) -> str:
    """Format an aware datetime for a person: "Monday, August 4, 2025, 7:03 a.m. PDT"."""
    local = moment.astimezone(zone)
    half = "a.m." if local.hour < 12 else "p.m."
    return f"{local:%A, %B} {local.day}, {local.year}, {(local.hour - 1) % 12 + 1}:{local:%M} {half} {local.tzname()}"
