import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from memory_assets.cli.keep import import_ as import_command
from memory_assets.cli.run import consolidate as consolidate_command
from memory_assets.context.store import StoreReader
from memory_assets.graph import forgetting
from memory_assets.graph.clusters import find_clusters, label_dense, match_clusters
from memory_assets.graph.creative import find_links
from memory_assets.graph.forgetting import forget
from memory_assets.graph.neighbours import nearest_of_all, nearest_to
from memory_assets.graph.relevance import refresh_relevance
from memory_assets.graph.summaries import summarise
from memory_assets.ingest.direct import ImportOutcome
from memory_assets.models import Kind, RelationType, State
from memory_assets.stores.access_log import AccessLog
from memory_assets.stores.relations import StatedRelation
from memory_assets_tests.graph.conftest import DAY, DIMENSION


def direction(*parts: float) -> list[float]:
    return [*parts, *[0.0] * (DIMENSION - len(parts))]


def around(centre: int, number: int, spread: float = 0.2) -> list[float]:
    """Return a direction near the axis `centre`."""
    axis = np.zeros(DIMENSION)
    axis[centre] = 1
    return (axis + spread * np.random.default_rng(number).normal(size=DIMENSION) / 4).tolist()


def scored(world):
    world.refresh()
    refresh_relevance(world.catalog, world.memories, DAY, rate=0.1, archive_threshold=0.2)


class TestCreative:
    def test_alike_but_unconnected_memories_are_joined_by_theme_or_by_subject(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.6))
        world.put(3, vector=direction(0, 0, 1.0), names=[("Redis", "TOOL")])
        world.put(4, vector=direction(0, 0, 1.0, 0.6), names=[("Redis", "TOOL")])
        world.put(5, vector=direction(0, 0, 0, 0, 1.0))
        for number in range(100, 160):
            world.put(number, names=[("Redis", "TOOL")])
        scored(world)
        outcome = find_links(world.with_settings(creative_similarity=0.8), DAY)
        assert {(link.source_id, link.target_id, link.type) for link in outcome.links} == {
            (1, 2, "SHARES_THEME"),
            (3, 4, "RELATES_TO"),
        }
        assert {(1, 2, "SHARES_THEME"), (3, 4, "RELATES_TO")} == world.edges("creative")

    def test_two_ratings_that_share_no_subject_are_alike_by_form_alone(self, world):
        world.put(1, vector=direction(1.0), kind=Kind.RATING)
        world.put(2, vector=direction(1.0, 0.6), kind=Kind.RATING)
        world.put(3, vector=direction(0, 0, 1.0), kind=Kind.RATING)
        world.put(4, vector=direction(0, 0, 1.0, 0.6))
        scored(world)
        outcome = find_links(world.with_settings(creative_similarity=0.8), DAY)
        assert {(link.source_id, link.target_id) for link in outcome.links} == {(3, 4)}

    def test_a_memory_gets_at_most_three_links_in_all(self, world):
        for number in range(1, 12):
            world.put(number, vector=direction(1.0, 0.02 * number))
        scored(world)
        ends: Counter[int] = Counter()
        for week in range(4):
            found = find_links(world.with_settings(creative_similarity=0.5), DAY + timedelta(days=7 * week))
            ends.update(end for link in found.links for end in (int(str(link.source_id)), int(str(link.target_id))))
        assert max(ends.values()) == 3
        assert world.query("SELECT count(*) FROM creative_links") == [(ends.total() // 2,)]

    def test_what_is_connected_in_either_direction_is_left_alone(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.5))
        world.relations.state(StatedRelation(2, 1, RelationType.PART_OF))
        scored(world)
        assert find_links(world.tenant, DAY).links == ()

    def test_the_sample_is_the_same_within_a_week_and_another_in_the_next(self, world):
        for number in range(1, 40):
            world.put(number, vector=around(number % 3, number))
        scored(world)
        once, again, later = (
            find_links(world.with_settings(creative_sample=8), moment, dry_run=True).links
            for moment in (DAY, DAY + timedelta(days=2), DAY + timedelta(days=7))
        )
        assert once == again
        assert once != later

    def test_a_second_run_writes_nothing_and_a_dry_run_never_does(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.5))
        scored(world)
        stamp = world.catalog.path.read_bytes()
        assert len(find_links(world.tenant, DAY, dry_run=True).links) == 1
        assert world.catalog.path.read_bytes() == stamp
        assert len(find_links(world.tenant, DAY).links) == 1
        stamp = world.catalog.path.read_bytes()
        assert find_links(world.tenant, DAY).links == ()
        assert world.catalog.path.read_bytes() == stamp

    def test_a_rebuild_of_the_graph_keeps_the_links_and_a_lost_memory_takes_its_own_along(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.5))
        scored(world)
        find_links(world.tenant, DAY)
        with world.catalog.write() as connection:
            connection.execute("DELETE FROM graph_edges; DELETE FROM graph_memories; DELETE FROM graph_nodes")
        world.refresh()
        assert world.edges("creative") == {(1, 2, "SHARES_THEME")}
        world.memories.delete([2])
        world.refresh()
        assert world.edges() == set()

    def test_a_link_rests_with_a_memory_and_returns_with_it(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.6))
        scored(world)
        find_links(world.with_settings(creative_similarity=0.8), DAY)
        world.memories.transition([2], State, State.FORGOTTEN)
        world.refresh()
        assert world.edges("creative") == set()
        world.memories.transition([2], State, State.ACTIVE)
        world.refresh()
        assert world.edges("creative") == {(1, 2, "SHARES_THEME")}

    def test_a_link_of_a_restored_memory_is_not_found_a_second_time(self, world):
        world.put(1, vector=direction(1.0))
        world.put(2, vector=direction(1.0, 0.6))
        scored(world)
        find_links(world.with_settings(creative_similarity=0.8), DAY)
        world.memories.transition([2], State, State.FORGOTTEN)
        scored(world)
        world.memories.transition([2], State, State.ACTIVE)
        assert find_links(world.with_settings(creative_similarity=0.8), DAY).links == ()
        world.refresh()
        assert world.edges("creative") == {(1, 2, "SHARES_THEME")}

    def test_memories_that_do_not_matter_are_not_drawn(self, world):
        world.put(1, vector=direction(1.0), days=60)
        world.put(2, vector=direction(1.0, 0.5), days=60)
        scored(world)
        assert find_links(world.tenant, DAY).sampled == 0


class TestNeighbours:
    def test_cells_find_what_comparing_all_finds(self, monkeypatch):
        from memory_assets.graph import neighbours

        random = np.random.default_rng(3)
        centres = random.normal(size=(60, 24))
        vectors = (centres[random.integers(0, 60, 3_000)] + 0.4 * random.normal(size=(3_000, 24))).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        exact_places, exact = nearest_of_all(vectors, 5)
        monkeypatch.setattr(neighbours, "_MAX_EXACT", 100)
        places, similarity = nearest_of_all(vectors, 5)
        common = sum(len(set(a) & set(b)) for a, b in zip(places.tolist(), exact_places.tolist(), strict=True))
        assert common > 0.95 * exact_places.size
        assert (places != np.arange(3_000)[:, None]).all()
        assert (similarity <= exact + 1e-6).all()

    def test_few_and_many_give_the_same_answer(self, world, monkeypatch):
        from memory_assets.graph import neighbours

        for number in range(1, 30):
            world.put(number, vector=around(number % 4, number))
        ids = list(range(1, 12))
        few = nearest_to(world.memories, ids, 3).sort_by([("id", "ascending"), ("similarity", "descending")])
        monkeypatch.setattr(neighbours, "_MAX_SEARCHES", 2)
        many = nearest_to(world.memories, ids, 3).sort_by([("id", "ascending"), ("similarity", "descending")])
        assert few.select(["id", "other"]) == many.select(["id", "other"])
        assert np.allclose(few["similarity"].to_numpy(), many["similarity"].to_numpy(), atol=1e-5)

    def test_in_a_large_store_more_are_looked_up_before_all_vectors_are_read(self, world, monkeypatch):
        from memory_assets.graph import neighbours
        from memory_assets.stores.memories import MemoryStore

        looked_up = []
        alike = MemoryStore.alike
        for number in range(1, 41):
            world.put(number)
        with monkeypatch.context() as counting:
            counting.setattr(MemoryStore, "alike", lambda *given: looked_up.append(given) or alike(*given))
            nearest_to(world.memories, list(range(1, 21)), 3)
            assert not looked_up
            counting.setattr(neighbours, "_ROWS_PER_SEARCH", 2)
            nearest_to(world.memories, list(range(1, 21)), 3)
        assert len(looked_up) == 20


class TestClusters:
    def fill(self, world, sizes):
        number = 0
        for centre, size in enumerate(sizes):
            for _ in range(size):
                number += 1
                world.put(
                    number,
                    f"The export of area {centre} was slow again on day {number}, so the team measured it.",
                    vector=around(centre, number),
                    names=[(f"Tool{centre}", "TOOL")],
                )
        world.refresh()

    def test_dense_groups_become_patterns_with_members_and_words(self, world):
        self.fill(world, (6, 5, 1))
        outcome = find_clusters(world.tenant, DAY)
        assert [len(cluster.members) for cluster in outcome.clusters] == [6, 5]
        first = outcome.clusters[0]
        assert first.label == "Tool0"
        assert "area 0" in first.summary
        assert world.query(f"SELECT kind, type FROM graph_nodes WHERE id = {first.id}") == [("pattern", "MetaPattern")]
        assert {(number, first.id, "PART_OF") for number in range(1, 7)} <= world.edges("cluster")

    def test_no_summary_tells_what_is_replaced_and_a_context_counts_what_is_recalled(self, world):
        self.fill(world, (6,))
        with world.catalog.write() as connection:
            connection.execute("DELETE FROM graph_changes")
            for number in range(1, 6):
                (memory,) = world.memories.get([number])
                connection.execute(
                    "INSERT INTO graph_changes VALUES ($1, 0, $2, 6, 0, 'It is fast.', now(), 'EVOLVED_INTO', 0.9, 0.9, '')",
                    [number, memory.content],
                )
        (cluster,) = find_clusters(world.tenant, DAY).clusters
        assert "on day 6" in cluster.summary
        assert not any(f"on day {number}" in cluster.summary for number in range(1, 6))
        world.memories.transition([1, 2], State, State.FORGOTTEN)
        world.refresh()
        assert StoreReader(world.tenant).nodes([str(cluster.id)])[str(cluster.id)].content == "Pattern of 4 memories."

    def test_a_second_run_writes_nothing_and_a_rebuild_keeps_the_edges(self, world):
        self.fill(world, (6, 5))
        find_clusters(world.tenant, DAY)
        edges, stamp = world.edges("cluster"), world.catalog.path.read_bytes()
        assert find_clusters(world.tenant, DAY + timedelta(days=30)).written == 0
        assert world.refresh().written == 0
        assert world.catalog.path.read_bytes() == stamp
        assert edges == world.edges("cluster")

    def test_a_cluster_keeps_its_identity_as_members_come_and_go(self, world):
        self.fill(world, (6, 5))
        before = {cluster.label: cluster.id for cluster in find_clusters(world.tenant, DAY).clusters}
        world.memories.transition([1, 2], State, State.ARCHIVED)
        world.put(50, "The export of area 0 is slow.", vector=around(0, 50), names=[("Tool0", "TOOL")])
        world.refresh()
        outcome = find_clusters(world.tenant, DAY + timedelta(days=30))
        assert {cluster.label: cluster.id for cluster in outcome.clusters} == before
        assert (outcome.kept, outcome.founded, outcome.dissolved) == (2, 0, 0)
        assert 50 in next(cluster for cluster in outcome.clusters if cluster.label == "Tool0").members

    def test_a_dissolved_cluster_leaves_nothing_behind(self, world):
        self.fill(world, (4,))
        find_clusters(world.tenant, DAY)
        world.memories.transition([1, 2, 3], State, State.FORGOTTEN)
        world.refresh()
        outcome = find_clusters(world.tenant, DAY)
        assert (outcome.clusters, outcome.dissolved) == ((), 1)
        assert world.query("SELECT count(*) FROM graph_nodes WHERE kind = 'pattern'") == [(0,)]
        assert world.edges("cluster") == set()

    def test_large_loose_neighbourhoods_are_divided_where_they_are_thin(self):
        random = np.random.default_rng(0)
        one, two = np.eye(DIMENSION)[0], np.eye(DIMENSION)[0] * 0.8 + np.eye(DIMENSION)[1] * 0.6
        vectors = np.vstack([centre + 0.03 * random.normal(size=(40, DIMENSION)) for centre in (one, two)]).astype(np.float32)
        bridge = np.array([one + (two - one) * step for step in np.linspace(0.1, 0.9, 5)], np.float32)
        vectors = np.vstack([vectors, bridge]).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        labels = label_dense(vectors, 0.6)
        ones, twos = set(labels[:40].tolist()) - {-1}, set(labels[40:80].tolist()) - {-1}
        assert ones
        assert twos
        assert not ones & twos

    def test_matching_prefers_the_best_overlap_and_gives_each_id_once(self):
        known = {7: {1, 2, 3, 4}, 8: {5, 6}}
        groups = [frozenset({1, 2}), frozenset({1, 2, 3, 4, 9}), frozenset({5, 6, 7})]
        ids = match_clusters(groups, known)
        assert ids[1:] == [7, 8]
        assert ids[0] not in {7, 8}

    def test_a_summary_quotes_central_sentences_once_and_in_order(self):
        texts = [
            "The billing export failed at night. Coffee was good.",
            "The billing export failed again because the disk was full.",
            "Kontora imports invoices on Mondays since July.",
        ]
        label, text = summarise(texts, [["Kontora"], ["Kontora"], []], [DAY, DAY + timedelta(days=1), DAY + timedelta(days=40)])
        assert label == "Kontora"
        assert text.startswith("3 memories of June 2026 to July 2026 about Kontora.")
        assert "Coffee" not in text
        assert text.index("failed") < text.index("Mondays")

    def test_a_label_is_what_most_members_are_about_as_it_is_spelled(self):
        texts = ["It failed at 3 in the night, 42 times.", "It failed again, 42 times.", "It imports on Mondays."]
        topics = [["billing-export", "export", "postgresql"], ["billing-export", "postgresql"], ["export", "monday"]]
        assert summarise(texts, [["PostgreSQL"], [], []], [DAY] * 3, topics)[0] == "Billing export, PostgreSQL"
        assert summarise(texts, [[], [], []], [DAY] * 3, [[], [], []])[0] == "Failed, times, imports"

    def test_kinds_of_one_thing_are_labelled_with_the_thing(self):
        texts = ["Explicit rating of 2 out of 10: slow.", "Inferred rating of 9 out of 10: relieved."] * 2
        topics = [["explicit-rating", "query"], ["inferred-rating"]] * 2
        assert summarise(texts, [[], [], [], []], [DAY] * 4, topics)[0] == "Rating, query"

    def test_a_label_leaves_out_what_less_than_half_are_about(self):
        texts = [f"Explicit rating of {number} out of 10." for number in range(8)]
        topics = [
            ["explicit-rating", "terraform"],
            ["inferred-rating", "terraform"],
            ["explicit-rating"],
            ["inferred-rating"],
        ] * 2
        assert summarise(texts, [[]] * 8, [DAY] * 8, topics)[0] == "Rating, terraform"
        assert summarise(texts, [[]] * 8, [DAY] * 8, [*topics[:2], *topics[2:4] * 3])[0] == "Rating"

    def test_texts_of_nothing_but_stop_words_are_still_summarised(self):
        assert summarise(["it is what it is"] * 3, [[], [], []], [DAY] * 3)[1]


class TestForget:
    def run(self, world, now=DAY, *, dry_run=False, **settings):
        return forget(world.with_settings(**{"decay_rate": 0.1, "forget_at_most": 1.0} | settings), now, dry_run=dry_run)

    def states(self, world):
        rows = world.memories.scan(("id", "state"))
        return dict(zip(rows["id"].to_pylist(), rows["state"].to_pylist(), strict=True))

    def test_only_idle_unprotected_active_memories_are_archived(self, world):
        world.put(1, days=200)
        world.put(2, days=200, protected=True)
        world.put(3, days=200, state=State.FORGOTTEN)
        world.put(4, days=200, state=State.SUPERSEDED)
        world.put(5, days=1)
        world.put(6, days=20)
        world.refresh()
        assert [memory.id for memory, _ in self.run(world, dry_run=True).archived] == [1]
        assert self.states(world)[1] == "active"
        assert [memory.id for memory, _ in self.run(world).archived] == [1]
        assert self.states(world) == {1: "archived", 2: "active", 3: "forgotten", 4: "superseded", 5: "active", 6: "active"}

    def test_what_stands_never_rests_by_age_alone(self, world):
        for number, kind in enumerate((Kind.USER, Kind.FEEDBACK, Kind.SELF_KNOWLEDGE), start=1):
            world.put(number, days=900, kind=kind)
        world.put(4, days=900, importance=0.8)
        world.put(5, days=900, importance=0.8, source_key="claude_silo:x/a.md")
        world.refresh()
        assert [memory.id for memory, _ in self.run(world).archived] == [5]

    def test_a_memory_leaves_only_together_with_all_that_it_replaces(self, world):
        for number in range(1, 8):
            world.put(number, days=200, kind=Kind.USER if number in (1, 6) else Kind.NOTE)
        for old, new in ((1, 2), (2, 3), (4, 5)):
            world.relations.state(StatedRelation(old, new, RelationType.INVALIDATED_BY))
        world.refresh()
        with world.catalog.write() as connection:
            row = (6, 1, "The office is in Bremen.", 7, 0, "The office is in Oldenburg.", DAY, "EVOLVED_INTO", 0.9, 0.9)
            connection.execute(f"INSERT INTO graph_changes VALUES ({', '.join('?' * len(row))}, '')", row)
        assert {memory.id for memory, _ in self.run(world).archived} == {4, 5}

    def test_more_than_a_tenth_goes_only_where_a_person_lets_it(self, world, monkeypatch):
        for number in range(1, 20):
            world.put(number, days=0)
        for number in range(20, 23):
            world.put(number, days=200)
        world.refresh()
        held = self.run(world, forget_at_most=0.1)
        assert (held.held_back, held.active, len(held.archived)) == (True, 22, 3)
        assert State.ARCHIVED not in self.states(world).values()
        monkeypatch.setenv("MEMORY_DATA_DIR", str(world.settings.data_dir))
        refused = CliRunner().invoke(consolidate_command, ["forget"])
        assert refused.exit_code == 1
        assert "more than 10% of the 22 active memories" in refused.output
        assert State.ARCHIVED not in self.states(world).values()
        assert CliRunner().invoke(consolidate_command, ["forget", "--yes"]).exit_code == 0
        assert Counter(self.states(world).values())[State.ARCHIVED] >= 3

    def test_many_archived_ones_are_deleted_only_where_a_person_lets_it_and_an_import_recalls_them(self, world):
        world.put(1, days=0)
        for number in range(2, 8):
            world.put(number, days=400, state=State.ARCHIVED)
        world.refresh()
        held = self.run(world, forget_deletes=True, forget_at_most=0.1)
        assert (held.held_back, len(held.deleted), len(self.states(world))) == (True, 6, 7)
        gone = self.run(world, forget_deletes=True)
        assert gone.file
        assert {json.loads(line)["state"] for line in Path(gone.file).read_text().splitlines()} == {State.ACTIVE}

    def test_a_dry_run_counts_recalls_as_the_cycle_does(self, world):
        for number in (1, 2):
            world.put(number, days=200)
        world.refresh()
        AccessLog(world.tenant.state).record([1], DAY)
        dry, real = self.run(world, dry_run=True), self.run(world)
        assert [memory.id for memory, _ in dry.archived] == [memory.id for memory, _ in real.archived] == [2]

    def test_a_tenth_goes_without_asking(self, world):
        for number in range(1, 10):
            world.put(number, days=0)
        world.put(10, days=200)
        world.refresh()
        assert not self.run(world, forget_at_most=0.1).held_back
        assert self.states(world)[10] == State.ARCHIVED

    def test_without_grace_the_threshold_alone_decides(self, world):
        world.put(6, days=20)
        world.refresh()
        assert len(self.run(world, forget_grace_days=0).archived) == 1

    def test_a_second_run_finds_nothing_left_and_writes_nothing(self, world):
        world.put(1, days=200)
        world.refresh()
        self.run(world)
        version = world.memories.version
        assert self.run(world).archived == ()
        assert world.memories.version == version

    def test_nothing_is_deleted_unless_it_is_switched_on(self, world):
        world.put(1, days=2000)
        world.refresh()
        outcome = self.run(world)
        assert (outcome.deleted, outcome.file) == ((), None)
        assert len(world.memories) == 1

    def test_what_is_deleted_is_in_a_file_that_import_takes_back(self, world, monkeypatch):
        world.put(1, "An old thought about Redis.", days=200, tags=("redis",), importance=0.25)
        world.put(2, days=200, protected=True)
        world.refresh()
        outcome = self.run(world, forget_deletes=True)
        assert [memory.id for memory, _ in outcome.deleted] == [1]
        assert set(self.states(world)) == {2}
        assert outcome.file
        (line,) = Path(outcome.file).read_text(encoding="utf-8").splitlines()
        assert json.loads(line)["content"] == "An old thought about Redis."
        monkeypatch.setenv("MEMORY_DATA_DIR", str(world.settings.data_dir))
        taken: list = []
        monkeypatch.setattr(
            "memory_assets.ingest.direct.import_memories",
            lambda tenant, given, *_: taken.extend(given) or ImportOutcome(0, 0, 0, 0),
        )
        result = CliRunner().invoke(import_command, [str(outcome.file)])
        assert result.exit_code == 0, result.output
        assert [(back.id, back.content, back.tags, back.importance) for back in taken] == [
            (1, "An old thought about Redis.", ("redis",), 0.25)
        ]

    def test_what_its_source_still_says_is_archived_and_not_deleted(self, world):
        world.put(1, days=200, source_key="claude_silo:x/a.md")
        with world.catalog.write() as connection:
            connection.execute("INSERT INTO memory_entries (key) VALUES ('claude_silo:x/a.md')")
        world.refresh()
        outcome = self.run(world, forget_deletes=True)
        assert (len(outcome.archived), outcome.deleted) == (1, ())

    def test_a_kill_between_file_and_deletion_loses_nothing(self, world, monkeypatch):
        for number in (1, 2):
            world.put(number, days=200)
        world.refresh()
        monkeypatch.setattr(forgetting, "_PER_COMMIT", 1)
        delete, calls = world.memories.delete, []

        def killed(ids, read_at):
            calls.append(ids)
            if len(calls) == 2:
                raise KeyboardInterrupt
            delete(ids, read_at)

        monkeypatch.setattr(world.memories, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            self.run(world, forget_deletes=True)
        kept = [
            json.loads(line)["id"]
            for file in (world.tenant.folder / "deleted").iterdir()
            for line in file.read_text().splitlines()
        ]
        assert sorted(kept) == [1, 2]
        monkeypatch.setattr(world.memories, "delete", delete)
        self.run(world, DAY + timedelta(seconds=1), forget_deletes=True)
        assert len(world.memories) == 0
        assert len(list((world.tenant.folder / "deleted").iterdir())) == 2
