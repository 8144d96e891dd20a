from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.graph import comparisons
from memory_assets.graph.analyzer import Link, _record
from memory_assets.graph.rules import ENTITY_CAP
from memory_assets.graph.statements import read_statements
from memory_assets.models import Kind, Memory, RelationType, Source, State
from memory_assets.stores.relations import StatedRelation
from memory_assets_tests.conftest import examples
from memory_assets_tests.graph.conftest import DAY, World

A, B, C, D = 11, 22, 33, 44


def test_links_by_title_and_by_file_name_become_edges_with_their_reason(world):
    world.put(A, title="incident", content="See [[cause]].", links=("cause", "nowhere"))
    world.put(B, source_key="claude_silo:x/cause.md")
    world.refresh()
    assert world.edges("link") == {(A, B, "RELATES_TO")}
    assert world.query("SELECT note FROM graph_edges") == [("links to [[cause]]",)]


def test_a_name_that_several_bear_means_the_one_of_the_same_project(world):
    world.put(A, links=("role",), project="/work/atlas")
    world.put(B, title="role", project="/work/atlas")
    world.put(C, title="role", project="/work/other")
    world.put(D, links=("role",), project="/work/third")
    world.refresh()
    assert world.edges("link") == {(A, B, "RELATES_TO"), (D, B, "RELATES_TO"), (D, C, "RELATES_TO")}
    sure, unsure = (world.query(f"SELECT min(confidence) FROM graph_edges WHERE source_id = {number}")[0][0] for number in (A, D))
    assert sure > unsure


def test_wording_types_the_edge_and_says_where_it_was_read(world):
    world.put(A, title="cause")
    world.put(B, content="This led to [[decision]], because of [[cause]].", links=("decision", "cause"))
    world.put(C, title="decision")
    world.refresh()
    assert world.edges("wording") == {(B, C, "LEADS_TO"), (A, B, "LEADS_TO")}
    assert {row[0] for row in world.query("SELECT evidence_id FROM graph_edges WHERE origin = 'wording'")} == {B}


def test_a_superseded_memory_evolved_and_is_invalidated_where_the_new_one_says_so(world):
    world.put(A, state=State.SUPERSEDED, superseded_by=B)
    world.put(B, content="The cache is no longer used.")
    world.put(C, state=State.SUPERSEDED, superseded_by=D)
    world.put(D, content="The printer stands upstairs.")
    world.refresh()
    assert world.edges() == {(A, B, "EVOLVED_INTO"), (A, B, "INVALIDATED_BY"), (C, D, "EVOLVED_INTO")}


def test_provenance_by_original_path_and_by_ids(world):
    world.put(A, source=Source.CLAUDE_SILO, source_key="claude_silo:-home-x/rule.md")
    world.put(B, metadata={"original_path": "/home/x/.claude/projects/-home-x/memory/rule.md"})
    world.put(C, metadata={"derived_from": [A, "42", True]})
    world.refresh()
    assert world.edges("provenance") == {(B, A, "DERIVED_FROM"), (C, A, "DERIVED_FROM")}


def test_order_within_a_session_joins_neighbours_only(world):
    for number, days in ((A, 3), (B, 2), (C, 1)):
        world.put(number, session="s", days=days)
    world.put(D, session="other", days=2)
    world.refresh()
    assert world.edges("session") == {(A, B, "OCCURRED_BEFORE"), (B, C, "OCCURRED_BEFORE")}
    world.memories.transition([B], State, State.FORGOTTEN)
    world.refresh()
    assert world.edges() == {(A, C, "OCCURRED_BEFORE")}


def test_an_opening_that_refers_back_names_the_previous_memory_as_the_cause(world):
    world.put(A, session="s", days=2)
    world.put(B, content="As a result we closed the port.", session="s", days=1)
    world.refresh()
    assert (A, B, "LEADS_TO") in world.edges("sequel")


def test_shared_entities_relate_more_surely_the_rarer_they_are_and_hubs_do_not_explode(world):
    for number in range(1, 41):
        world.put(number, names=[("Hub", "TOOL")])
    world.put(A * 10, names=[("Rare", "TOOL"), ("Odd", "TOOL")])
    world.put(B * 10, names=[("Rare", "TOOL"), ("Odd", "TOOL")])
    world.put(C * 10, names=[("Rare", "TOOL")])
    world.refresh()
    confidence = {
        (source, target): value
        for source, target, value in world.query("SELECT source_id, target_id, confidence FROM graph_edges")
    }
    assert confidence[110, 220] > confidence[110, 330]
    assert max(row[0] for row in world.query("SELECT count(*) FROM graph_edges GROUP BY source_id")) <= ENTITY_CAP
    assert not any(source <= 40 for source, _ in confidence)


def test_near_duplicates_reinforce_across_sources_and_relate_within_one(world):
    same = [1.0, *[0.0] * 15]
    near = [1.0, 0.1, *[0.0] * 14]
    world.put(A, days=2, vector=same, content="The under-elevens train at five on Tuesdays.")
    world.put(B, days=1, vector=near, content="Training of the under-elevens is on Tuesdays at five.", source=Source.HTTP)
    world.put(C, vector=[0.0, 0.0, 1.0, *[0.0] * 13], content="told twice", days=2)
    world.put(D, vector=[0.0, 0.0, 0.0, 1.0, *[0.0] * 12], content="told twice", days=1)
    world.refresh()
    assert world.edges() == {(A, B, "REINFORCES"), (C, D, "RELATES_TO")}
    (similarity,) = world.query(f"SELECT similarity FROM graph_edges WHERE source_id = {A}")[0]
    assert abs(similarity - 1 / np.sqrt(1.01)) < 1e-3


_CHANGED = "The staging database is reset every night.", "The staging database is no longer reset at night."
_EQUAL_VECTOR = [1.0, *[0.0] * 15]


def test_a_later_denial_invalidates_across_sources_and_does_not_reinforce(world):
    world.put(A, days=90, vector=_EQUAL_VECTOR, content=_CHANGED[0])
    world.put(B, days=1, vector=_EQUAL_VECTOR, content=_CHANGED[1], source=Source.HTTP)
    world.refresh()
    assert world.edges() == {(A, B, "INVALIDATED_BY")}
    assert "the newer says that it changed" in world.query("SELECT note FROM graph_edges")[0][0]


def test_another_value_on_a_later_day_is_the_next_version_and_on_the_same_day_a_contradiction(world):
    texts = "The boat lies in the harbour of Kiel.", "The boat lies in the harbour of Rostock."
    world.put(A, days=90, vector=_EQUAL_VECTOR, content=texts[0])
    world.put(B, days=1, vector=_EQUAL_VECTOR, content=texts[1])
    other = [0.0, 1.0, *[0.0] * 14]
    world.put(C, days=1.5, vector=other, content="Version 2.3 is in production.")
    world.put(D, days=1, vector=other, content="Version 2.4 is in production.")
    world.refresh()
    assert world.edges() == {(A, B, "EVOLVED_INTO"), (C, D, "CONTRADICTS")}
    assert ("Kiel -> Rostock",) in {(note.rpartition(": ")[2],) for (note,) in world.query("SELECT note FROM graph_edges")}


def test_the_comparison_of_similar_texts_tells_how_many_are_done(world, monkeypatch):
    monkeypatch.setattr(comparisons, "_PAIRS_AT_ONCE", 2)
    for number, animal in enumerate(("otter", "heron", "beaver"), 1):
        world.put(number, vector=_EQUAL_VECTOR, content=f"The {animal} sleeps at the weir.")
    told = []
    world.refresh(on_progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 3), (3, 3)]


def test_what_happened_twice_is_no_contradiction(world):
    world.put(A, days=9, vector=_EQUAL_VECTOR, content="Ana bought three apples.")
    world.put(B, days=1, vector=_EQUAL_VECTOR, content="Ana bought five apples.")
    world.refresh()
    assert world.edges() == set()


def test_what_somebody_states_of_two_memories_goes_before_the_rule(world):
    world.put(A, days=90, vector=_EQUAL_VECTOR, content=_CHANGED[0])
    world.put(B, days=1, vector=_EQUAL_VECTOR, content=_CHANGED[1])
    world.refresh()
    world.relations.state(StatedRelation(B, A, RelationType.RELATES_TO, 1.0, "both hold", "cli"))
    world.refresh()
    assert world.edges() == {(B, A, "RELATES_TO")}


def test_what_thousands_say_alike_is_one_chain_and_a_lost_link_closes(world):
    count = 2_000
    vectors = np.random.default_rng(1).normal(size=(count, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    made = [
        Memory(n, "ok", Kind.NOTE, Source.CLI, "", DAY + timedelta(seconds=n), DAY, content_hash="x") for n in range(1, count + 1)
    ]
    world.memories.put(made, vectors, "test")
    world.refresh()
    assert world.edges("same text") == {(n, n + 1, "RELATES_TO") for n in range(1, count)}
    world.memories.delete([1_000])
    assert world.refresh().written <= 5
    assert (999, 1_001, "RELATES_TO") in world.edges("same text")
    assert len(world.edges("same text")) == count - 2


def test_preferences_join_entities(world):
    names = [("PostgreSQL", "DATABASE"), ("MongoDB", "DATABASE")]
    world.put(A, content="The team prefers PostgreSQL over MongoDB.", names=names)
    world.refresh()
    found = world.query(
        "SELECT a.label, e.type, b.label FROM graph_edges e JOIN graph_nodes a ON a.id = source_id "
        "JOIN graph_nodes b ON b.id = target_id"
    )
    assert found == [("PostgreSQL", "PREFERS_OVER", "MongoDB")]


def test_a_stated_relation_follows_its_memory_to_the_newest_version(world):
    world.put(A)
    world.put(B)
    world.relations.state(StatedRelation(A, B, RelationType.CONTRADICTS, 0.8, "seen in the logs"))
    world.relations.state(StatedRelation(A, 999, RelationType.PART_OF))
    world.refresh()
    assert world.edges() == {(A, B, "CONTRADICTS")}
    world.put(A, state=State.SUPERSEDED, superseded_by=C)
    world.put(C, content="a newer version")
    world.refresh()
    assert world.edges("stated") == {(C, B, "CONTRADICTS")}


def test_one_person_is_one_node_with_one_id_over_time(world):
    world.put(A, names=[("Priya", "PERSON")])
    world.refresh()
    ((before,),) = world.query("SELECT id FROM graph_nodes WHERE kind = 'entity'")
    world.put(B, names=[("Priya Vendakar", "PERSON")])
    world.put(C, names=[("Vendakar, Priya", "PERSON")])
    world.refresh()
    assert world.query("SELECT id, label, type FROM graph_nodes WHERE kind = 'entity'") == [(before, "Priya Vendakar", "PERSON")]
    assert world.query("SELECT count(*) FROM graph_mentions") == [(3,)]


def test_an_unchanged_world_is_not_written_again(world):
    fill(world)
    assert world.refresh().written > 0
    stamp = world.catalog.path.read_bytes()
    again = world.refresh()
    assert (again.changed, again.written) == (0, 0)
    assert world.catalog.path.read_bytes() == stamp


def test_only_the_changed_memory_is_looked_at_again(world):
    fill(world)
    world.refresh()
    world.put(B, content="Another text.")
    assert world.refresh().changed == 1


def test_no_edge_dangles_when_memories_go_or_are_forgotten(world):
    fill(world)
    world.refresh()
    world.memories.delete([A])
    world.memories.transition([B], State, State.FORGOTTEN)
    world.refresh()
    ends = {end for edge in world.edges() for end in edge[:2]}
    assert not ends & {A, B}
    assert ends <= {row[0] for row in world.query("SELECT id FROM graph_nodes")}
    assert {row[0] for row in world.query("SELECT memory_id FROM graph_mentions")} <= {C, D}


def test_a_refresh_that_another_process_overtook_starts_again(world, monkeypatch):
    from memory_assets.graph import edges

    fill(world)
    write, calls = edges._write, []

    def overtaken(catalog, changes, difference, found):
        calls.append(found)
        if len(calls) == 1:
            monkeypatch.setattr(edges, "_write", write)
            World(world.settings.data_dir).refresh()
            monkeypatch.setattr(edges, "_write", overtaken)
        return write(catalog, changes, difference, found)

    monkeypatch.setattr(edges, "_write", overtaken)
    world.refresh()
    assert world.edges("link")
    assert world.query("SELECT number, logged_since FROM graph_builds") == [(1, 0)]


NAMES = [
    ("Ann Lee", "PERSON"),
    ("Annn Lee", "PERSON"),
    ("Ann Bo", "PERSON"),
    ("Ann", "PERSON"),
    ("Lee", "PERSON"),
    ("Redis", "TOOL"),
]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from([A, B, C, D]),
        st.sampled_from(["active", "archived", "forgotten", "gone"]),
        st.sampled_from(["", "one", "two"]),
        st.sets(st.sampled_from(["one", "two", "three"]), max_size=2),
        st.sets(st.sampled_from(NAMES), max_size=3),
        st.sampled_from(["", "s", "t"]),
        st.sampled_from(["This led to [[one]].", "Because of [[two]].", "As a result it stopped.", "Plain."]),
        st.sampled_from([None, A, B, C]),
        st.sampled_from([None, (A, B), (B, C), (C, D), (A, D)]),
        st.sampled_from([None, [], [(A, B)], [(C, A)]]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(2))
@given(CHANGES)
def test_step_by_step_gives_the_graph_that_one_build_gives(tmp_path_factory, changes):
    slowly = World(tmp_path_factory.mktemp("slowly"))
    for step, (number, state, title, links, names, session, text, newer, stated, answer) in enumerate(changes):
        if stated:
            slowly.relations.state(StatedRelation(stated[0], stated[1], RelationType.CONTRADICTS, 0.5 + step / 100))
        if answer is not None:
            made = [Link(one, other, RelationType.LEADS_TO, 0.9, "") for one, other in answer]
            _record(slowly.tenant, number, "digest", "model", made)
        if state == "gone":
            slowly.memories.delete([number])
        else:
            slowly.put(
                number,
                text + str(step),
                title=title,
                links=tuple(sorted(links)),
                names=sorted(names),
                session=session,
                days=step,
                state=State.SUPERSEDED if newer and newer != number else State(state),
                superseded_by=newer if newer != number else None,
            )
        slowly.refresh()
    at_once = World(tmp_path_factory.mktemp("at_once"))
    rows = slowly.memories.scan(slowly.memories.table.schema.names) if slowly.memories.columns.live else None
    if rows is not None and rows.num_rows:
        from memory_assets.stores.rows import from_arrow

        column = slowly.memories.columns.live
        assert column
        at_once.memories.put(from_arrow(rows), np.stack(rows[column].to_pylist()).astype(np.float32), "test")
        for row in slowly.relations.scan().to_pylist():
            kind = RelationType(row["type"])
            at_once.relations.state(StatedRelation(row["source_id"], row["target_id"], kind, row["confidence"]))
        for number, one, other, kind, confidence, note in slowly.query("FROM analyzer_links"):
            _record(at_once.tenant, number, "digest", "model", [Link(one, other, RelationType(kind), confidence, note)])
        at_once.refresh()
        assert graph_of(slowly) == graph_of(at_once)


def graph_of(world):
    """Edges and mentions with entities by the texts that mean them: their ids may differ by history."""
    edges = world.query(
        "SELECT source_id, target_id, type, round(confidence, 4), origin, evidence_id FROM graph_edges ORDER BY ALL"
    )
    mentions = world.query(
        """SELECT memory_id, list_sort(list(DISTINCT a."text")) FROM graph_mentions m JOIN graph_aliases a USING (entity_id)
           GROUP BY memory_id, m.entity_id ORDER BY ALL"""
    )
    nodes = world.query("SELECT id FROM graph_nodes WHERE kind = 'memory' ORDER BY ALL")
    return edges, mentions, nodes


def fill(world):
    world.put(A, "This led to [[b]].", title="a", links=("b",), names=[("Ann Lee", "PERSON")], session="s", days=3)
    world.put(B, title="b", names=[("Ann", "PERSON"), ("Redis", "TOOL")], session="s", days=2)
    world.put(C, names=[("Redis", "TOOL")], session="s", days=1)
    world.put(D, "told twice", names=[("Ann Lee", "PERSON")])


def test_a_newer_text_replaces_what_it_most_likely_changes_and_no_other_fact_of_the_subject(world):
    world.put(A, days=90, vector=_EQUAL_VECTOR, content="Ingrid keeps the minutes of the board meetings.")
    world.put(B, days=80, vector=_EQUAL_VECTOR, content="Board meetings last ninety minutes.")
    world.put(C, days=1, vector=_EQUAL_VECTOR, content="Ravi took over the minutes of the board meetings from Ingrid.")
    world.refresh()
    assert {edge for edge in world.edges() if C in edge} == {(A, C, "EVOLVED_INTO")}


def test_a_change_in_other_words_is_found_by_its_likelihood(world):
    world.put(A, days=90, vector=_EQUAL_VECTOR, content="Farida lives in Lyon with her sister.")
    world.put(B, days=1, vector=_EQUAL_VECTOR, content="Farida has moved to Marseille.")
    world.refresh()
    assert world.edges() == {(A, B, "EVOLVED_INTO")}


@pytest.mark.parametrize("guessed", [{}, {"guessed": ["created_at"]}], ids=["stated", "guessed"])
def test_a_text_of_an_earlier_day_replaces_nothing_though_that_day_is_guessed_and_it_says_that_something_changed(world, guessed):
    world.put(A, days=90, metadata=guessed, vector=_EQUAL_VECTOR, content="The choir now meets on Thursday at seven.")
    world.put(B, days=1, vector=_EQUAL_VECTOR, content="The choir meets on Tuesday at seven.")
    world.refresh()
    assert not {(B, A, "EVOLVED_INTO"), (B, A, "INVALIDATED_BY")} & world.edges()


def test_of_two_texts_without_a_day_the_one_that_clearly_says_so_is_the_newer(world):
    guessed = {"guessed": ["created_at"]}
    world.put(A, days=90, metadata=guessed, content="No more red card at the gate.")
    world.put(B, days=1, metadata=guessed, content="The red card opens the gate, and meanwhile the alarm is suspended.")
    world.put(C, days=90, metadata=guessed, content="The choir no longer meets in the chapel.")
    world.put(D, days=1, metadata=guessed, content="The choir meets in the chapel and has been cut to ten.")
    world.refresh()
    assert world.edges() == {(A, B, "CONTRADICTS"), (D, C, "INVALIDATED_BY")}


def test_a_sentence_of_a_long_note_replaces_nothing_if_the_network_alone_says_so(world):
    paper, public = (
        "The club requires a paper copy of each vote.",
        "Votes are now public; a copy can be withdrawn only by the chair.",
    )
    world.put(A, days=90, content=f"{paper} The hall has two doors. Chairs come from Kiel.")
    world.put(B, days=1, content=f"{public} Boats are dry. Ropes are blue.")
    world.refresh()
    assert world.query("SELECT old_text, new_text FROM graph_changes") == []


@pytest.mark.parametrize(
    ("old", "new", "metadata", "is_found"),
    [
        ("The choir meets in the chapel.", "The choir no longer meets in the chapel.", {}, True),
        ("The choir meets in the chapel.", "The choir no longer meets in the chapel.", {"guessed": ["created_at"]}, False),
        ("Bikes are kept in MongoDB.", "The bikes leave MongoDB for PostgreSQL.", {"guessed": ["created_at"]}, True),
    ],
)
def test_long_notes_without_days_replace_only_what_they_name(world, old: str, new: str, metadata: dict, is_found: bool):
    for number, text, days in ((A, old, 90), (B, new, 1)):
        world.put(number, days=days, metadata=metadata, content=f"{text} The hall has two doors. Chairs come from Kiel.")
    world.refresh()
    assert world.query("SELECT old_id, new_id FROM graph_changes") == [(A, B)] * is_found


@pytest.mark.parametrize(
    ("old", "new", "is_found"),
    [
        ("The choir meets in the chapel.", "The choir no longer meets in the chapel.", True),
        (
            "Inventur: jede Charge zählen, kommt mit dem Modul",
            "Neuer Wunsch, dazugekommen: Inventur soll mehrere Zähler zugleich erlauben, nicht nur eine Person nach der anderen.",
            False,
        ),
    ],
)
def test_of_two_long_notes_only_a_change_in_clear_words_is_found(world, old: str, new: str, is_found: bool):
    lines = [
        f"The {colour} {thing} is dry."
        for colour in ("red", "blue", "green", "white")
        for thing in ("boat", "rope", "hall", "door")
    ]
    for number, text, days in ((A, old, 90), (B, new, 1)):
        world.put(number, days=days, content="\n".join([text, *lines]))
    world.refresh()
    assert world.query("SELECT old_text FROM graph_changes") == [(old,)] * is_found


def test_a_sentence_that_introduces_a_list_or_points_elsewhere_is_not_compared():
    says, listing = "Bikes stand at the gate.", "The shed holds such things:"
    german = "Verwandt, aber anders: [[yard]] meint den Hof.\n\nWie anwenden: Tor immer abschliessen."
    text = f"{listing}\n\n- {says}\n\n{german}"
    note = Memory(A, text, Kind.PROJECT, Source.CLI, "shed", DAY, DAY)
    assert read_statements([note])["text"].to_pylist() == [says]


def test_others_may_write_the_catalog_while_the_network_reads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def relations(pairs: list[tuple[str, str]]) -> np.ndarray:
        with world.catalog.within(0.2).write() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS beside (number INTEGER)")
        written.append(len(pairs))
        return np.zeros((len(pairs), 5), np.float32)

    monkeypatch.setattr("memory_assets.language.changes.relation_probabilities", relations)
    world.put(A, "The choir rehearses in the old school.")
    world.put(B, "The choir rehearses in the parish hall.", days=3)
    world.refresh()
    assert written == [1]


def test_a_change_after_the_clock_was_set_back_reaches_the_graph(world: World) -> None:
    world.put(A)
    world.refresh()
    with world.catalog.write() as connection:
        connection.execute("UPDATE graph_position SET read_at = read_at + INTERVAL 1 YEAR")
    world.memories.transition([A], [State.ACTIVE], State.FORGOTTEN)
    world.refresh()
    assert world.query("SELECT state FROM graph_memories") == [("forgotten",)]
