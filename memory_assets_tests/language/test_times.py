import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.http import Service
from memory_assets.language.times import day_in, display_zone, format_local, relative_age
from memory_assets.operations.arguments import parse_time
from memory_assets.recall.search import read_query
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant

NOW = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)


@pytest.fixture
def geoip() -> Iterator[Callable[[bytes, int], str]]:
    """Start a geoip service on loopback that gives one answer, and return its address."""
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int = 200) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/zone"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def settings_with(**given: str) -> Settings:
    return load_settings().model_copy(update=given)


def test_the_parameter_wins_over_everything():
    assert display_zone(settings_with(timezone="Europe/Berlin"), "Asia/Tokyo") == ZoneInfo("Asia/Tokyo")


def test_the_setting_wins_over_the_machine():
    assert display_zone(settings_with(timezone="Europe/Berlin")) == ZoneInfo("Europe/Berlin")
    assert display_zone(settings_with(timezone="Europe/Berlin"), "") == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "body", [b"America/Lima", b'"America/Lima"', b'{"timezone": "America/Lima"}', b'{"time_zone":"America/Lima"}']
)
def test_geoip_answers_in_any_of_its_forms(geoip: Callable[..., str], body: bytes):
    assert display_zone(settings_with(geoip_url=geoip(body))) == ZoneInfo("America/Lima")


@pytest.mark.parametrize(
    ("body", "status"), [(b"Mars/Base", 200), (b"{}", 200), (b"[1]", 200), (b"\xff", 200), (b"Asia/Tokyo", 500)]
)
def test_a_useless_geoip_answer_falls_through(
    geoip: Callable[..., str], body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Africa/Lagos")
    assert display_zone(settings_with(geoip_url=geoip(body, status))) == ZoneInfo("Africa/Lagos")


@pytest.mark.parametrize("name", ["localtime", "posix/Europe/Berlin", "posixrules", "right/Europe/Berlin", "Europe/Nowhere"])
def test_a_zone_that_the_catalog_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="give an IANA name"):
        display_zone(settings_with(), name)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "not a url", "file:///etc/hostname"])
def test_a_geoip_service_that_is_away_falls_through(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Africa/Lagos")
    assert display_zone(settings_with(geoip_url=url)) == ZoneInfo("Africa/Lagos")


def test_a_question_and_a_typed_time_are_read_in_the_zone_of_geoip(
    geoip: Callable[..., str], settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    url = geoip(b"Asia/Tokyo")
    tenant = Tenant(settings.model_copy(update={"geoip_url": url}), "main")
    asked = read_query(tenant, "what did we decide yesterday?", NOW)  # 7:30 a.m. of the 22nd in Tokyo
    assert asked.interval is not None
    assert asked.interval.start == datetime(2026, 11, 21, tzinfo=ZoneInfo("Asia/Tokyo"))
    monkeypatch.setenv("MEMORY_GEOIP_URL", url)
    assert parse_time("2026-11-21", "since") == datetime(2026, 11, 20, 15, tzinfo=UTC)


def test_the_machines_zone_is_taken_before_utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Africa/Lagos")
    assert display_zone(settings_with()) == ZoneInfo("Africa/Lagos")
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "local")
    assert display_zone(settings_with()) == ZoneInfo("UTC")


@pytest.mark.parametrize("name", ["Mars/Base", "../../etc/passwd", "America", "Europe/Berlin\x00", "/etc/hosts"])
def test_a_wrong_name_that_a_person_wrote_is_an_error(name: str):
    with pytest.raises(InvalidInputError, match=r"timezone .* is unknown: give an IANA name"):
        display_zone(settings_with(), name)
    with pytest.raises(SettingsError, match=r"POND_TIMEZONE is .* unknown: set an IANA name"):
        display_zone(settings_with(timezone=name))


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=0), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=3, minutes=20), "3 hours ago"),
        (timedelta(hours=24), "1 day ago"),
        (timedelta(days=6, hours=23), "6 days ago"),
        (timedelta(days=15), "2 weeks ago"),
        (timedelta(days=65), "2 months ago"),
        (timedelta(days=800), "2 years ago"),
        (timedelta(hours=-3), "in 3 hours"),
        (timedelta(seconds=-20), "just now"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(ago: timedelta, said: str):
    assert relative_age(NOW - ago, NOW) == said


@given(st.timedeltas(min_value=timedelta(minutes=1), max_value=timedelta(days=5000)), st.sampled_from(["Asia/Tokyo", "UTC"]))
def test_an_age_does_not_depend_on_the_zone_it_is_written_in(ago: timedelta, zone: str):
    then = NOW - ago
    assert relative_age(then.astimezone(ZoneInfo(zone)), NOW) == relative_age(then, NOW)


@pytest.mark.parametrize(
    ("moment", "zone", "said"),
    [
        (datetime(2025, 8, 4, 14, 3, tzinfo=UTC), "America/Los_Angeles", "Monday, August 4, 2025, 7:03 a.m. PDT"),
        (datetime(2025, 12, 31, 23, 30, tzinfo=UTC), "Europe/Berlin", "Thursday, January 1, 2026, 12:30 a.m. CET"),
        (datetime(2025, 1, 1, 12, 0, tzinfo=UTC), "UTC", "Wednesday, January 1, 2025, 12:00 p.m. UTC"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "Europe/Berlin", "Sunday, October 25, 2026, 2:30 a.m. CEST"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "Europe/Berlin", "Sunday, October 25, 2026, 2:30 a.m. CET"),
    ],
)
def test_a_time_is_shown_in_the_persons_zone(moment: datetime, zone: str, said: str):
    assert format_local(moment, ZoneInfo(zone)) == said


def test_geoip_is_asked_once(geoip: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    send = Service.send
    monkeypatch.setattr(Service, "send", lambda self, method, url, **given: asked.append(url) or send(self, method, url, **given))
    url = geoip(json.dumps({"timezone": "Asia/Tokyo"}).encode())
    for _ in range(3):
        display_zone(settings_with(geoip_url=url))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("moment", "zone", "day"),
    [
        ("2026-10-31T23:00:00+00:00", "Europe/Berlin", "2026-11-01"),
        ("2026-11-02T03:30:00+00:00", "America/New_York", "2026-11-01"),
        ("2026-11-01T00:00:00+00:00", "America/New_York", "2026-11-01"),
    ],
)
def test_a_day_is_the_readers_unless_only_a_day_was_said(moment: str, zone: str, day: str):
    assert str(day_in(datetime.fromisoformat(moment), ZoneInfo(zone))) == day
