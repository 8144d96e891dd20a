from datetime import UTC, datetime

import numpy as np

from memory_assets.ingest.direct import import_memories
from memory_assets.language.pipeline import open_analyzer
from memory_assets.models import NewMemory, Source
from memory_assets.recall.view import current_view
from memory_assets.stores.rows import derived_id
from memory_assets.tenants import Tenant

SAID = ("Where is it?", "Behind the shed", "Thanks a lot")


def imported(tenant: Tenant, moment: datetime | None):
    given = [
        NewMemory(text, Source.IMPORT, external_id=f"turn-{number}", session="talk", created_at=moment)
        for number, text in enumerate(SAID)
    ]
    tenant.__dict__["analyzer"] = open_analyzer(tenant.settings.spacy_model)
    return import_memories(tenant, given, lambda _done, _total: None)


def followers(tenant: Tenant) -> list[int]:
    timeline = current_view(tenant, fresh=True).timeline
    ids = np.array([derived_id(f"import:turn-{number}", "") for number in range(len(SAID))])
    after = timeline.neighbour(timeline.rows(ids), 1)
    return [ids.tolist().index(timeline.columns["id"][row]) if row >= 0 else -1 for row in after]


def test_turns_of_one_time_follow_each_other_as_they_were_given(tenant: Tenant):
    imported(tenant, datetime(2026, 1, 1, tzinfo=UTC))
    assert followers(tenant) == [1, 2, -1]


def test_turns_without_a_time_follow_each_other_as_they_were_given(tenant: Tenant):
    imported(tenant, None)
    assert followers(tenant) == [1, 2, -1]


def test_importing_them_again_changes_nothing(tenant: Tenant):
    imported(tenant, datetime(2026, 1, 1, tzinfo=UTC))
    assert imported(tenant, datetime(2026, 1, 1, tzinfo=UTC)).unchanged == len(SAID)
