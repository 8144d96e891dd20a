"""Login, form tokens, and the security headers of every answer."""

import re
import time
from itertools import product
from urllib.parse import urlsplit

import httpx
import pytest

from memory_assets.stores.keys import KeyStore, create_link, use_link
from memory_assets.tenants import Tenant, delete_tenant
from memory_assets.ui.app import one_time_address
from memory_assets.ui.page import VIEWS
from memory_assets_tests.ui.site import Site, Visitor, remember

PATHS = sorted({re.sub(r"\{.*?\}", "1", each.path) for each in VIEWS if each.method == "GET"})
CHANGES = sorted({re.sub(r"\{.*?\}", "1", each.path) for each in VIEWS if each.method == "POST"})


def test_a_key_opens_the_pages_of_its_tenant_until_logout(site: Site) -> None:
    tenant, key = site.new_tenant("mira")
    visitor = site.visitor()
    assert "This key does not open this memory." in visitor.log_in("mira", key[:-1] + "x").text
    opened = visitor.log_in("mira", key)
    assert (opened.status_code, opened.url.path) == (200, "/ui/")
    before = dict(visitor.http.cookies)
    assert visitor.post("/logout").url.path == "/ui/login"
    visitor.http.cookies.update(before)
    assert visitor.get("/").url.path == "/ui/login"
    assert tenant.name == "mira"


def test_the_cookie_is_for_this_port_and_no_script(site: Site) -> None:
    _, key = site.new_tenant("nora")
    visitor = site.visitor()
    visitor.get("/login")
    answer = visitor.http.post("/ui/login", data={"csrf": visitor.csrf, "tenant": "nora", "key": key}, follow_redirects=False)
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"memory_{urlsplit(site.url).port}=")
    assert {"HttpOnly", "SameSite=lax", "Path=/ui"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    behind = visitor.http.get("/ui/login", headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in behind.headers["Set-Cookie"]


def test_a_login_needs_the_token_of_its_form(site: Site) -> None:
    _, key = site.new_tenant("otto")
    visitor = site.visitor()
    visitor.get("/login")
    for csrf in ("", "x" * 64):
        visitor.csrf = csrf
        assert visitor.http.post("/ui/login", data={"csrf": csrf, "tenant": "otto", "key": key}).status_code == 403
    assert visitor.get("/").url.path == "/ui/login"


def test_a_login_form_of_another_site_ends_no_session(site: Site) -> None:
    sent = site.visitor().http.post("/ui/login", data={"key": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert (sent.status_code, "Set-Cookie" in sent.headers) == (403, False)


def test_a_form_that_is_too_large_is_refused_in_one_sentence(site: Site) -> None:
    chunks = (b"x" * 65_536 for _ in range(6))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = site.visitor().http.post("/ui/login", content=chunks, headers=form)
    assert (refused.status_code, "The request body is larger than" in refused.text) == (413, True)
    assert refused.headers["X-Frame-Options"] == "DENY"


def test_a_damaged_note_of_the_last_visit_keeps_nobody_out(site: Site, tenant: Tenant) -> None:
    tenant.state.claim()
    for note in [b"{", b"[]", b"5", b"{}", b'{"at": "yesterday"}', b'{"at": 5}']:
        tenant.state.put("visit.json", note)
        assert site.visitor(tenant).get("/").status_code == 200, note


def test_what_was_written_when_a_session_had_ended_is_not_lost(site: Site, tenant: Tenant) -> None:
    visitor = site.visitor(tenant)
    address = f"/memories/{remember(tenant, 'The buoy is red.')}/edit"
    visitor.get("/search")
    visitor.http.cookies.clear()
    typed = "The buoy is <b>yellow</b> since May."
    fields = {"csrf": visitor.csrf, "seen": "2026-05-01T10:00:00+00:00", "content": typed}
    answer = visitor.http.post(f"/ui{address}", data=fields, headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, "Your session has ended" in answer.text) == (403, True)
    assert "The buoy is &lt;b&gt;yellow&lt;/b&gt; since May.</textarea>" in answer.text
    assert answer.text.count("<textarea") == 1
    for elsewhere in ({}, {"Sec-Fetch-Site": "cross-site"}):
        shown = visitor.http.post(f"/ui{address}", data=fields, headers=elsewhere)
        assert (shown.url.path, "yellow" in shown.text) == ("/ui/login", False)


def test_what_was_written_into_a_form_that_is_refused_is_not_lost(tenant: Tenant, visitor: Visitor) -> None:
    number, typed = remember(tenant, "The buoy is red."), "The buoy is <b>yellow</b> since May."
    (memory,) = tenant.memories.get([number])
    visitor.get("/search")
    fields = {"csrf": visitor.csrf, "seen": memory.updated_at.isoformat(), "content": typed}
    too_long = fields | {"content": typed + " so" * 60_000}
    for code, gone, sent in ((403, number, fields | {"csrf": "stale"}), (404, 1, fields), (400, number, too_long)):
        answer = visitor.http.post(f"/ui/memories/{gone}/edit", data=sent, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status_code, "The buoy is &lt;b&gt;yellow&lt;/b&gt; since May." in answer.text) == (code, True)
    foreign = visitor.http.post(f"/ui/memories/{number}/edit", data=fields | {"csrf": "stale"})
    assert (foreign.status_code, "yellow" in foreign.text) == (403, False)


def test_a_link_opens_once_and_not_when_it_is_old(site: Site, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    address = one_time_address(tenant, site.url)
    assert site.visitor().http.get(address).url.path == "/ui/"
    again = site.visitor().http.get(address)
    assert again.status_code == 403
    assert "was used already" in again.text
    now = time.time()
    for later in (301, 0):  # in the end the clock is set back
        old = create_link(tenant.state)
        monkeypatch.setattr("memory_assets.stores.keys.time.time", lambda later=later: now + later)
        assert not use_link(tenant.state, old)
    create_link(tenant.state)
    assert len(list((tenant.folder / "links").iterdir())) == 1
    for path in ("/open/nobody/x", "/open/..%2F..%2Fx/y", "/open/main/..%2F..%2Fkeys"):
        assert site.visitor().get(path).status_code in (403, 404)


def test_nothing_is_shown_or_changed_without_a_session(site: Site) -> None:
    stranger = site.visitor()
    for path in PATHS:
        assert stranger.get(path).url.path == "/ui/login", path
        assert stranger.http.get(f"/ui{path}", headers={"HX-Request": "true"}).headers["HX-Redirect"] == "/ui/login", path
    for path in CHANGES:
        assert stranger.post(path).url.path == "/ui/login", path


def test_a_change_needs_the_token_of_the_session(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.")
    other = site.visitor(tenant)
    assert other.get("/search").status_code == visitor.get("/search").status_code == 200
    for csrf in ("", "x" * 64, other.csrf):
        for path in CHANGES:
            sent = visitor.http.post(f"/ui{path.replace('/1', f'/{number}')}", data={"csrf": csrf})
            assert sent.status_code == 403, path
            assert "nothing was changed" in sent.text
    as_json = visitor.http.post(f"/ui/memories/{number}/undo", json={"csrf": visitor.csrf})
    assert as_json.status_code == 400
    assert tenant.memories.get([number])[0].state == "active"


def test_a_revoked_key_ends_an_open_session(site: Site) -> None:
    tenant, key = site.new_tenant("petra")
    visitor = site.visitor()
    visitor.log_in("petra", key)
    assert visitor.get("/search").url.path == "/ui/search"
    KeyStore(tenant.state).revoke(key.split("_")[1])
    assert visitor.get("/search").url.path == "/ui/login"


def test_a_deleted_tenant_ends_its_sessions(site: Site) -> None:
    tenant, key = site.new_tenant("quinn")
    visitor = site.visitor()
    visitor.log_in("quinn", key)
    delete_tenant(tenant)
    assert visitor.get("/").url.path == "/ui/login"


def test_another_tenants_memories_are_not_there(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    other, _ = site.new_tenant("rosa")
    visitor.get("/search")
    number = remember(other, "Rosa keeps a secret garden.")
    assert visitor.get(f"/memories/{number}").status_code == 404
    seen = other.memories.get([number])[0].updated_at.isoformat()
    assert visitor.post(f"/memories/{number}/undo", seen=seen).status_code == 404
    assert "secret" not in visitor.get("/search?q=garden&all=1").text
    assert other.memories.get([number])[0].state == "active"


def test_every_answer_forbids_what_it_does_not_need(visitor: Visitor) -> None:
    for path in ["/", "/login", "/nowhere", "/memories/1", "/search?kind=nonsense", "/static/0/ui.css"]:
        headers = visitor.get(path).headers
        policy = {part.partition(" ")[0]: part.partition(" ")[2] for part in headers["Content-Security-Policy"].split("; ")}
        assert policy["default-src"] == "'none'", path
        assert policy["script-src"] == policy["style-src"] == "'self'", path
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'", path
        assert headers["X-Frame-Options"] == "DENY", path
        assert headers["Referrer-Policy"] == "no-referrer", path
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Cache-Control"] == ("no-store" if "static" not in path else "private, max-age=31536000, immutable"), path


def test_a_page_of_another_name_is_refused(site: Site, visitor: Visitor) -> None:
    refused = visitor.http.get("/ui/", headers={"Host": "evil.example"})
    assert refused.status_code == 400
    assert "memory_" not in refused.headers.get("Set-Cookie", "")


def test_no_path_leads_out_of_the_files_of_the_pages(site: Site) -> None:
    for name in ("..%2Fapp.py", "....//app.py", "%2e%2e%2fapp.py", "ui.css%00", "htmx.min.js"):
        assert httpx.get(f"{site.url}/ui/static/0/{name}").status_code == 404, name


def test_script_and_style_stay_below_150_kilobytes(site: Site) -> None:
    from memory_assets.ui.rendering import assets

    assert sum(len(content) for content, _ in assets().values()) <= 150_000


def test_a_number_that_is_no_id_is_refused(tenant: Tenant, visitor: Visitor) -> None:
    known = remember(tenant, "Alice sails.")
    seen = tenant.memories.get([known])[0].updated_at.isoformat()
    both = {"seen": seen, "seen older": seen, "seen newer": seen, "decision": "both", "type": "LEADS_TO"}
    for number in ["9" * 19, "9" * 300, "٣", "²", "-1"]:
        for path in (f"/memories/{known}/relate", f"/memories/{known}/supersede", "/conflicts", "/names/1/merge"):
            answer = visitor.post(
                path, other=number if "memories" in path else "", older=known, newer=number, into=number, **both
            )
            assert answer.status_code == 400, path
        for path in ("/memories/{}", "/memories/{}/joined", "/memories/{}/found?other_query=x", "/names/{}"):
            assert visitor.get(path.format(number)).status_code == 404, path
        assert visitor.post(f"/memories/{number}/forget", seen=seen).status_code == 404, number
        assert visitor.post(f"/session/{number}", told="off").status_code == 404, number


def test_a_cursor_that_no_page_gave_is_refused(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice sails.")
    paths = ("/search?q=x&", "/timeline?", "/timeline?on=2026-03-01&", "/names?")
    for path, cursor in product(paths, ("x", "%3Cscript%3E", "f" * 31, "9" * 5001)):
        refused = visitor.get(f"{path}cursor={cursor}")
        assert (refused.status_code, "This cursor is not valid" in refused.text) == (400, True), (path, cursor)


def test_no_time_is_too_far_away(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice sails.")
    for day in ["0001-01-01", "9999-12-31"]:
        for path in ("/search?q=x&since=", "/search?q=x&until=", "/timeline?since=", "/timeline?on="):
            assert visitor.get(f"{path}{day}").status_code == 200, path
        assert visitor.get("/context?lens=nonsense").status_code == 400, day
