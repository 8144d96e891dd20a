"""Which facts of a memory a session's brief tells, and in which priority."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.outdated import StatementChange, Verdict
from memory_assets.learn.brief import read_brief
from memory_assets.learn.brief_facts import Doubts, Need, list_facts
from memory_assets.learn.briefing import renew_brief
from memory_assets.models import Kind, Memory, NewMemory, Source
from memory_assets.operations.changes import forget, restore, tag
from memory_assets.operations.store import store
from memory_assets.operations.take_in import take_in

_NOW = datetime(2026, 9, 1, tzinfo=UTC)
_LONG = (
    "How the harbour office works\n\nThe office has four rooms. The printer stands in the hall. Since May the boats are counted by "
    "camera. It sends a picture each minute. We might buy a second camera. Somebody painted the door."
)


def memory(text: str, kind: Kind = Kind.PROJECT) -> Memory:
    return Memory(7, text, kind, Source.CLI, "note-7", _NOW, _NOW)


def needs(text: str, doubts: Doubts | None = None, kind: Kind = Kind.PROJECT) -> dict[str, Need]:
    return {each.text: each.need for each in list_facts(memory(text, kind), doubts or Doubts())}


def change(old: tuple[int, str], new: tuple[int, str], verdict: Verdict) -> StatementChange:
    return StatementChange(*old, *new, _NOW, verdict, 0.6)


def test_what_changed_is_needed_before_what_a_memory_begins_with_and_a_title_is_no_fact() -> None:
    found = needs(_LONG)
    camera = "Since May the boats are counted by camera."
    assert found[camera] is Need.CHANGED
    assert found["The office has four rooms."] is Need.OPENING
    assert found["We might buy a second camera."] is Need.FURTHER
    assert "How the harbour office works" not in found


def test_what_replaces_something_comes_first_and_what_is_perhaps_replaced_last() -> None:
    rooms, printer, door = "The office has four rooms.", "The printer stands in the hall.", "Somebody painted the door."
    decided = change((1, "It has three rooms."), (7, rooms), "replaced")
    likely = change((7, printer), (2, "The printer stands upstairs."), "perhaps replaced")
    open_one = change((3, "Nobody painted the door."), (7, door), "contradicted")
    doubts = Doubts.of([decided, open_one, likely], {})
    found = needs(_LONG, doubts)
    assert (found[rooms], found[printer], found[door]) == (Need.REPLACES, Need.LEAST, Need.REPLACES)
    assert [each.contrary for each in list_facts(memory(_LONG), doubts) if each.text == door] == [3]
    assert rooms not in needs(_LONG, Doubts(outdated={7: {rooms}}))


def test_a_sentence_that_leans_on_a_replaced_one_is_not_told() -> None:
    replaced = "Ines owns the gate since May."
    rest = "Before that it was Ivo. He moved to Kiel. The gate is painted green. It squeaks in the wind."
    found = needs(f"{replaced} {rest}", Doubts(outdated={7: {replaced}}))
    assert set(found) == {"The gate is painted green."}
    assert "Before that it was Ivo." in " ".join(needs(f"{replaced} {rest}"))


def test_a_curated_description_that_its_body_repeats_gives_way_to_it() -> None:
    told = Memory(7, "Fee of the pier\n\nFee of the pier is 20 EUR a day.", Kind.PROJECT, Source.PAI_LEARNING, "fee", _NOW, _NOW)
    assert [each.text for each in list_facts(told, Doubts())] == ["Fee of the pier is 20 EUR a day."]


def test_a_sentence_that_another_one_explains_is_told_behind_it() -> None:
    text = "The old barrier at the gate is slow. It no longer opens by itself. " + "Visitors ring the bell at the gate. " * 4
    found = needs(text)
    assert found["The old barrier at the gate is slow. It no longer opens by itself."] is Need.CHANGED
    assert "The old barrier at the gate is slow." not in found


def test_items_of_a_list_are_told_together_with_what_introduces_them() -> None:
    listed = "Boats must be entered in both books:\n\n- The red book lies in the hall.\n- The blue book is hers."
    text = f"Ute keeps the log.\n\n{listed}\n\n{'It rains a lot. ' * 10}"
    joined = "Boats must be entered in both books: The red book lies in the hall; The blue book is hers."
    assert [each for each in needs(text) if "book" in each] == [joined]
    lists = "## Racing boats\n\n- No lamps at night.\n- Two sails at most.\n\n## Rest\n\n- Bring your bread."
    headed = f"Ute keeps the log. {'It rains a lot. ' * 10}\n\n{lists}"
    assert [each for each in needs(headed) if ":" in each] == [
        "Racing boats: No lamps at night; Two sails at most.",
        "Rest: Bring your bread.",
    ]


def test_a_wish_is_told_with_its_first_sentences_and_a_short_note_whole() -> None:
    wish = "Answer in one paragraph. Give details when asked."
    longer = f"{wish} The reader is on the train. {'Long answers have been read on the telephone. ' * 4}"
    assert needs(f"About answers\n\n{longer}", kind=Kind.FEEDBACK) == {
        f"{wish} The reader is on the train. Long answers have been read on the telephone.": Need.STANDING
    }
    assert needs("Build with `make wheel` here.\n\n**Why:** the runner is old.", kind=Kind.FEEDBACK) == {
        "Build with make wheel here. Why: the runner is old.": Need.STANDING
    }
    assert needs("Tests run on oak. Why? It is fast.") == {"Tests run on oak. Why? It is fast.": Need.OPENING}


def test_why_is_told_last_and_how_to_apply_before_it() -> None:
    rule = "Integration tests must hit a real database, not mocks."
    why = "Why: mocked tests passed last quarter and the migration failed in production."
    how = "start the Postgres of docker compose and use its fixtures."
    last = "Never patch the session."
    text = f"{rule}\n\n**{why[:4]}**{why[4:]}\n**How to apply:** {how} {last} See [[fixtures]] for what it holds."
    expected = {rule: Need.CHANGED, why: Need.EXPLAINING, how: Need.FURTHER, last: Need.BINDING}
    assert list(needs(text).items()) == list(expected.items())
    assert needs(text, kind=Kind.FEEDBACK) == {f"{rule} {how} {last}": Need.STANDING, why: Need.EXPLAINING}
    assert set(needs(text, Doubts(outdated={7: {rule}}))) == {last}


def test_what_a_memory_forbids_or_demands_is_needed_before_what_it_begins_with() -> None:
    ban, duty = "Never verify the icons with the reader.", "Nach jeder Änderung muss der Dienst neu starten."
    opening = "The icons of the shop are green."
    found = needs(f"{opening} {'They are drawn by hand. ' * 8}{ban} {duty}")
    assert (found[ban], found[duty]) == (Need.BINDING, Need.BINDING)
    assert found[opening] is Need.OPENING


@pytest.mark.parametrize("said", ["The donut shop is green.", "Ivo cannot remember.", "Gäste dürfen im Hof parken."])
def test_what_only_sounds_like_a_rule_is_none(said: str) -> None:
    assert needs(f"{_LONG} {said}").get(said) is not Need.BINDING


def test_each_sentence_of_a_telling_description_is_told_before_the_text_and_its_hook_last() -> None:
    said = (
        "Berths are let by the month. Never let the north berth.\nnorth berth never, prices in Prices.md\n\nBerths have water. "
    )
    found = needs(f"{said}{'The keeper has the keys of all berths. ' * 5}")
    assert [*found][:2] == ["Berths are let by the month.", "Never let the north berth."]
    assert (found["Never let the north berth."], found["north berth never, prices in Prices.md"]) == (
        Need.CHANGED,
        Need.EXPLAINING,
    )


def test_a_hook_below_a_mere_topic_is_told_once_though_an_abbreviation_in_it_is_spelt_like_a_pronoun() -> None:
    hook = "Jest with ES modules, 1567 tests, coverage of 68 % at last count"
    told = list_facts(memory(f"How this project is tested\n{hook}\n\nRun the tests after each change.", Kind.FEEDBACK), Doubts())
    assert [each.text for each in told].count(hook) == 1
    assert sum(hook in each.text for each in told) == 1


@pytest.mark.parametrize("said", ["Das Büro liegt im 2. Stock der Werft.", "Ivo öffnet das Büro der Werft um sieben."])
def test_das_before_a_noun_refers_to_no_sentence_before(said: str) -> None:
    assert said in needs(f"{_LONG} {said}")


def test_a_quotation_of_several_lines_is_told_in_whole_sentences() -> None:
    text = (
        "The harbour survey\n\nThe survey has three parts and each of them is described in a file of its own.\n\n"
        "> **Reverted on 12 August: the survey is one report again.** The harbour master demands a table of\n"
        "> contents, a summary and a list of the berths. What stands below is\n"
        "> history."
    )
    assert list(needs(text))[1:] == [
        "Reverted on 12 August: the survey is one report again. The harbour master demands a table of contents, "
        "a summary and a list of the berths.",
        "What stands below is history.",
    ]


def test_what_draws_a_conclusion_is_not_told_without_what_it_follows_from() -> None:
    found = needs(f"{'The harbour office has four rooms. ' * 4}The crane lifts two boats an hour. So half of them wait outside.")
    assert not any("wait outside" in each for each in found)


def test_a_description_that_only_names_its_topic_is_no_fact() -> None:
    text = f"Robin's background, way of working, boats and favourite harbours\n\n{'Robin sails a small boat on Sundays. ' * 5}"
    assert list(needs(text)) == ["Robin sails a small boat on Sundays."]
    label = "Boats of the north pier — moored by size, the smallest first"
    assert next(iter(needs(text.replace(text.partition("\n")[0], label)))) == label


def test_a_list_is_told_in_its_order_with_its_labels_and_says_where_it_goes_on() -> None:
    bans = [
        f"Never moor at the {name} pier without asking the keeper" for name in ("north", "south", "west", "east", "old", "new")
    ]
    text = f"{_LONG} Rules of the harbour:\n- reboot the crane\n" + "\n".join(f"- {each}" for each in bans)
    found = [each for each in needs(text) if each.startswith("Rules of the harbour:")]
    assert found[0].startswith(f"Rules of the harbour: reboot the crane; {bans[0]}; ")
    assert found[0].endswith("; …")
    nested = f"{_LONG} Berths:\n- North pier\n  - Ines keeps it\n  - three metres deep\n- South pier\n  - Tomasz keeps it\n\n- Bring a rope"
    assert [each for each in needs(nested) if "keeps it" in each] == [
        "Berths: North pier: Ines keeps it; three metres deep",
        "Berths: South pier: Tomasz keeps it",
    ]


def test_a_list_below_another_paragraph_does_not_get_the_introduction_above_it() -> None:
    text = f"{_LONG} These are closed:\n- the north pier\n\nThe crane lifts two boats an hour.\n\n- the slip is open all day"
    assert "the slip is open all day" in needs(text)


def test_what_is_replaced_or_masked_introduces_nothing_and_a_label_in_doubt_is_a_fact() -> None:
    text = f"{_LONG} Berths:\n- The crane runs on diesel\n  - it lifts 8 tons at once\n\n"
    assert "Berths: it lifts 8 tons at once" in needs(text, Doubts(outdated={7: {"The crane runs on diesel"}}))
    assert (
        needs(text, Doubts(contrary={(7, "The crane runs on diesel"): 99}))["Berths: The crane runs on diesel"] is Need.REPLACES
    )
    masked = f"{_LONG} The code [secret: password] opens:\n- the boat house in winter"
    assert not any("secret" in each for each in needs(masked))


def test_what_stands_before_the_introduction_of_long_code_is_told_and_an_open_block_keeps_its_last_line() -> None:
    listing = "\n".join(f"crane --boat {number} --slowly" for number in range(8))
    found = needs(f"{_LONG} The slip moved to the east. Lift all boats with:\n```\n{listing}\n```\n")
    assert "The slip moved to the east." in found
    assert not any("Lift all" in each for each in found)
    assert "Stop the crane with: crane --stop; crane --off" in needs(
        f"{_LONG} Stop the crane with:\n```\ncrane --stop\ncrane --off"
    )


def test_words_that_several_sentences_have_repeat_none_of_them() -> None:
    text = f"{_LONG} Alice leads boats, Bob cranes. The slip depends on the ledger. Carol reviews it with Bob. Alice reviews the slip."
    assert "Alice reviews the slip." in needs(text)


def test_a_command_is_told_behind_its_introduction_and_a_long_listing_with_its_introduction_is_not() -> None:
    listing = "\n".join(f"crane --boat {number} --slowly" for number in range(4))
    text = f"{_LONG} Start the crane with:\n\n```bash\ncrane --up\n```\n\nAll at once:\n```\n{listing}\n```\n- The slip is steep and wet."
    found = needs(text)
    assert "Start the crane with: crane --up" in found
    assert "The slip is steep and wet." in found
    assert not any("All at once" in each for each in found)


def test_code_is_no_fact_and_rows_of_a_table_are_told_last() -> None:
    text = "How boats are landed\n\nThe crane lifts two boats an hour.\n\n```bash\ncrane --boats Two\nEvery boat waits\n```\n\n"
    table = "| Berth | Keeper | Depth |\n|---|---|---|\n| North | Ines | 3 m |"
    found = needs(f"{text}{'The harbour office has four rooms. ' * 4}\n\n{table}\n\nThe slip is closed in winter.")
    assert not any("crane --boats" in each or "Every boat waits" in each for each in found)
    assert found["The slip is closed in winter."] is Need.FURTHER
    assert found["| North | Ines | 3 m |"] is Need.EXPLAINING


def test_what_is_masked_is_not_told_and_the_rest_of_its_memory_is() -> None:
    found = needs(f"{_LONG} The boat house opens with the code [secret: password]. It is written on the door. The slip is steep.")
    assert not any("boat house" in each or "written" in each for each in found)
    assert {"The office has four rooms.", "The slip is steep."} <= set(found)
    assert needs("The boat house opens with the code [secret: password].") == {}


def test_an_indented_line_is_a_fact_like_others() -> None:
    listed = "- Bring warm clothes for\n  the night watch.\n- Two lamps hang at the gate"
    assert "Rest: Bring warm clothes for the night watch; Two lamps hang at the gate" in needs(f"{_LONG}\n\n## Rest\n\n{listed}")


def test_what_says_little_without_its_context_is_told_last() -> None:
    found = needs(f"{_LONG} The pilot boat tows the barges. The tug does NOT.")
    assert [each for each, need in found.items() if need is Need.EXPLAINING] == ["The tug does NOT."]


def test_a_sentence_that_refers_to_another_is_not_told_alone_and_what_says_the_same_is_told_once() -> None:
    text = (
        "Never moor at the north pier, always take the south pier.\n\nMoor at the south pier, never at the north pier. The old crane is "
        "dead. Changes there have no effect on the boats. The north pier has berth 4."
    )
    assert list(needs(text)) == [
        "Never moor at the north pier, always take the south pier.",
        "The old crane is dead.",
        "The north pier has berth 4.",
    ]


def test_a_paragraph_without_a_full_stop_gets_one_before_the_next() -> None:
    assert needs("About oak\n\nTests run on oak\n\nBuilds run on elm") == {"Tests run on oak. Builds run on elm": Need.OPENING}


def test_a_label_that_leads_a_wish_ends_before_its_first_sentence() -> None:
    text = (
        "How Ines works \u2014 plain, in small steps, asks before she acts\n\nNo small talk and no praise. "
        + "The rest stands below. " * 6
    )
    assert list_facts(memory(text, Kind.FEEDBACK), Doubts())[0].text.startswith(
        "How Ines works \u2014 plain, in small steps, asks before she acts. No small"
    )


def test_a_description_and_its_hook_end_where_their_lines_do() -> None:
    said = "Who the user is\nbackend developer, short answers\n\nThe user is Jonas."
    told = Memory(7, said, Kind.USER, Source.PAI_LEARNING, "user_role", _NOW, _NOW)
    assert [each.text for each in list_facts(told, Doubts())] == [
        "Who the user is. backend developer, short answers",
        "The user is Jonas.",
    ]
    outdated = Doubts(outdated={7: {"Who the user is", "backend developer, short answers"}})
    assert [each.text for each in list_facts(told, outdated)] == ["The user is Jonas."]


def test_a_memory_of_which_one_sentence_is_replaced_is_told_without_it(tenant, write_silo) -> None:
    write_silo(
        "hosts", "The nightly import runs on host beech. The staging site is reset on Sundays. Old logs go to the archive."
    )
    write_silo(
        "move", "Two racks were emptied.\n\nSince 2 September 2026 the nightly import runs on host alder instead of beech."
    )
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    renew_brief(tenant)
    brief = read_brief(tenant.folder)
    assert brief
    told = [each.fact for each in brief.lines]
    assert "alder instead of beech" in told[0]
    assert "The staging site is reset on Sundays." in told
    assert not any("runs on host beech" in each for each in told)
    hosts = next(each.id for each in brief.lines if "Sundays" in each.text)
    forget(tenant, hosts)
    restore(tenant, hosts)
    again = read_brief(tenant.folder)
    assert again
    assert {each.fact for each in again.lines} == set(told)


def test_a_changed_session_takes_the_place_of_older_ones_alone(tenant) -> None:
    old, new = (
        store(
            tenant,
            NewMemory(f"Session in atlas: {what}", Source.CLI, Kind.SESSION, project="/atlas", created_at=_NOW - timedelta(days)),
        ).id
        for what, days in (("rename", 30), ("login", 2))
    )

    def told() -> set[int]:
        brief = read_brief(tenant.folder)
        assert brief
        return {each.id for each in brief.lines}

    renew_brief(tenant)
    assert told() == {new}
    for number in (old, new):
        tag(tenant, number, add=["harbour"])
        forget(tenant, number)
        restore(tenant, number)
        assert told() == {new}


def test_of_two_changes_without_a_day_the_likelier_direction_counts(tenant, write_silo) -> None:
    """Whichever file was copied first."""
    texts = {
        "moved": "The ledger moved to host beech last year. Old logs go to the archive.",
        "again": "The ledger is no longer on host beech, it moved to host alder. Nobody rang.",
    }
    for first in texts:
        for name, text in texts.items():
            path = write_silo(name, text, slug=f"-home-ada-{first}")
            os.utime(path, (1_780_000_000 + (name != first), 1_780_000_000 + (name != first)))
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    with tenant.catalog.read() as connection:
        found = connection.execute("""
            SELECT old_text FROM graph_changes JOIN graph_memories a ON a.id = old_id JOIN graph_memories b ON b.id = new_id
            WHERE a.project = b.project
        """).fetchall()
    assert found == [("The ledger moved to host beech last year.",)] * 2
