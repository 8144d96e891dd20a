"""Curation of silos over HTTP works as on the command line, for the tenant that owns them."""

from typing import Any

from memory_assets_tests.api.service import Service, TenantClient
from memory_assets_tests.learn.conftest import ATLAS, write


def test_silos_are_checked_reviewed_applied_and_returned(service: Service) -> None:
    owner = service.new_tenant("main")
    silo, homes = service.folder / "projects" / ATLAS / "memory", service.folder / "LEARNING"
    write(silo / "port.md", "port", "The service listens on 8931.", "project")
    write(silo / "plan.md", "plan", "Always show the plan first.", "feedback")

    def do(step: str, body: Any = None) -> Any:
        answer = owner.post(f"/learn/{step}", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    (proposal,) = do("check")["proposals"]
    assert do("review")["proposals"][0]["id"] == proposal["id"]
    reworded = do(f"proposals/{proposal['id']}/reword", {"content": "Plans come first.\n\nShow the plan before any change."})
    assert reworded["proposals"][0]["body"] == "Show the plan before any change."
    for text in (" \n\u200b", "Plans\x00 first."):
        refused = owner.post(f"/learn/proposals/{proposal['id']}/reword", {"content": text})
        assert (refused.status_code, refused.json()["error"].split()[0]) == (400, "content")
    assert do("review", {"accept": [proposal["id"]], "note": "as agreed"})["decided"][0]["files"] == 1
    assert do("apply", {})["dry_run"]
    assert len(list(silo.glob("*.md"))) == 2
    assert len(do("apply", {"confirm": True})["taken"]) == 2
    assert not list(silo.glob("*.md"))
    assert "Show the plan before any change." in "".join(path.read_text() for path in homes.rglob("*.md"))
    assert len(do("undo")["restored"]) == 2
    assert len(list(silo.glob("*.md"))) == 2
    assert owner.post("/learn/undo").status_code == 409
    missing = owner.post("/learn/review", {"accept": ["LP-999"]})
    assert missing.status_code == 404
    assert missing.json()["error"] == "There is no proposal LP-999; list the proposals (learn review)."


def test_another_tenant_reaches_no_silo(client: TenantClient) -> None:
    for step, body in (("check", None), ("review", None), ("apply", {"confirm": True}), ("undo", None)):
        refused = client.post(f"/learn/{step}", body)
        assert (refused.status_code, "belong to another tenant" in refused.json()["error"]) == (400, True)
