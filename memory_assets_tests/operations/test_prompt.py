"""Recall for a prompt: relevant memories, once per session, within the token budget, and none for a prompt that needs none."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from memory_assets import operations
from memory_assets.language.passages import passage
from memory_assets.language.tokens import count_tokens
from memory_assets.learn.brief import CLOSING, LONGEST_LINE, OPENING
from memory_assets.learn.session_start import PROMPT, read_last_told, read_told, record_told, set_quiet, still_told
from memory_assets.learn.transcripts import find_taken_back
from memory_assets.mcp import tools
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.operations import prompt as operations_prompt
from memory_assets.operations.context import context
from memory_assets.operations.prompt import LONGEST_PROMPT, read_question, recall_for_prompt
from memory_assets.operations.store import store
from memory_assets.recall.prompt import find_for_prompt
from memory_assets.recall.search import search
from memory_assets.settings import Settings
from memory_assets.sources.projects import Project, slug_of
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import filled_once
from memory_assets_tests.language.test_embedders_e5 import installed as e5_installed
from memory_assets_tests.learn.session_hook import full_disk

ATLAS = Project("/src/atlas", ("/src/atlas", "-src-atlas"))


@pytest.fixture
def filled(tenant: Tenant) -> Tenant:
    filled_once(tenant, "prompt", lambda: fill(tenant))
    return tenant


def fill(tenant: Tenant) -> None:
    for text, project in (
        ("The staging database is restored from a dump every Monday; Priya owns the job.", "/src/atlas"),
        ("Customs declarations go to the broker Vandermeer by fax before noon.", "/src/atlas"),
        ("The kettle of the office is red.", "/src/borealis"),
        ("Mira wants answers in English, without emojis.", ""),
    ):
        store(tenant, NewMemory(text, Source.CLI, Kind.NOTE, project=project))


def test_a_prompt_is_told_what_it_needs_once_in_a_session(filled: Tenant) -> None:
    first = recall_for_prompt(filled, "who takes care of restoring the staging database?", session="s1", here=ATLAS)
    assert "Priya owns the job" in first.framed
    assert first.framed.startswith(OPENING)
    assert first.framed.endswith(CLOSING)
    assert recall_for_prompt(filled, "who takes care of restoring the staging database?", session="s1", here=ATLAS).framed == ""
    assert (
        recall_for_prompt(filled, "who takes care of restoring the staging database?", session="s2", here=ATLAS).ids == first.ids
    )
    assert [each.memory for each in read_told(filled.folder, "s1")] == list(first.ids)
    assert [each.memory for each in read_last_told(filled.folder)] == list(first.ids)


def test_a_full_disk_keeps_no_prompt_from_what_it_needs(filled: Tenant) -> None:
    with full_disk():
        found = recall_for_prompt(filled, "who takes care of restoring the staging database?", session="s1", here=ATLAS)
    assert "Priya owns the job" in found.framed
    assert not read_told(filled.folder, "s1")


def test_a_prompt_that_was_taken_back_is_told_again_what_it_needs(filled: Tenant, tmp_path: Path) -> None:
    question = "who takes care of restoring the staging database?"
    transcript = tmp_path / "s1.jsonl"
    said = {"timestamp": datetime.now(UTC).isoformat(), "message": {"role": "user", "content": question}}

    def write(*entries: tuple[str, str]) -> None:
        lines = [
            json.dumps({"type": kind, "uuid": f"{kind} {n}", "parentUuid": at, **said}) for n, (kind, at) in enumerate(entries)
        ]
        transcript.write_text("\n".join(lines), encoding="utf-8")

    def recall() -> str:
        return recall_for_prompt(filled, question, "s1", ATLAS, transcript=transcript).framed

    assert recall()
    write(("user", "a0"), ("assistant", "user 0"))
    assert not recall()
    write(("user", "a0"), ("attachment", "user 0"), ("queue-operation", ""))
    assert not recall()
    write(("user", "a0"), ("attachment", "user 0"))
    assert recall()


def test_what_was_told_with_a_prompt_that_another_replaced_is_not_in_the_session(filled: Tenant, tmp_path: Path) -> None:
    record_told(filled.folder, "s1", [(41, "(id 41) Mira sails.")], PROMPT)
    (told,) = read_told(filled.folder, "s1")
    begun, replaced = f"{told.at:%Y-%m-%dT%H:%M:%S}.900Z", f"{told.at + timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}.900Z"
    content = {"type": "user", "message": {"role": "user", "content": "Who sails?"}}
    lines = [
        {**content, "uuid": "p1", "parentUuid": "a0", "timestamp": begun},
        {"type": "assistant", "uuid": "a1", "parentUuid": "p1"},
        {**content, "uuid": "p2", "parentUuid": "a0", "timestamp": replaced},
        {"type": "assistant", "uuid": "a2", "parentUuid": "p2"},
    ]
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert still_told(filled.folder, "s1", find_taken_back(transcript)) == {}
    transcript.write_text("\n".join(map(json.dumps, lines[:2])), encoding="utf-8")
    assert list(still_told(filled.folder, "s1", find_taken_back(transcript))) == [41]
    command = {"type": "system", "subtype": "local_command", "parentUuid": "a0", "uuid": "c1", "timestamp": replaced}
    transcript.write_text("\n".join(map(json.dumps, [*lines[:2], command])), encoding="utf-8")
    assert still_told(filled.folder, "s1", find_taken_back(transcript)) == {}


def test_what_was_told_with_the_prompt_that_replaced_another_stays_in_the_session(filled: Tenant, tmp_path: Path) -> None:
    record_told(filled.folder, "s1", [(41, "(id 41) Mira sails.")], PROMPT)
    (told,) = read_told(filled.folder, "s1")
    content = {"type": "user", "parentUuid": "a0", "message": {"role": "user", "content": "Who sails?"}}
    lines = [
        {**content, "uuid": "p1", "timestamp": (told.at - timedelta(minutes=1)).isoformat()},
        {**content, "uuid": "p2", "timestamp": (told.at + timedelta(seconds=0.9)).isoformat()},
        {"type": "assistant", "uuid": "a2", "parentUuid": "p2"},
    ]
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert list(still_told(filled.folder, "s1", find_taken_back(transcript))) == [41]


def test_the_passage_of_an_unspaced_text_holds_what_fits_and_costs_as_much_as_its_length() -> None:
    text = f"{'会议室的灯是白色的' * 2_000}，备份保存三十五天"
    assert "三十五天" in passage(text, "备份保存多久")


def test_the_best_memory_gets_the_room_that_it_needs_and_a_next_one_is_not_cut_to_a_rest(tenant: Tenant) -> None:
    days = [f"The rota of the quarry has Nadia on day {day} and Ivo in the night after it." for day in range(40)]
    rota = store(tenant, NewMemory(" ".join(days), Source.CLI, Kind.NOTE)).id
    store(tenant, NewMemory(" ".join(days[20:]), Source.CLI, Kind.NOTE))
    told = recall_for_prompt(tenant, "who is on the rota of the quarry on day 3?")
    assert told.ids == (rota,)
    assert days[3] in told.framed
    assert 600 < len(told.framed.splitlines()[-2]) <= LONGEST_LINE + len("- ")


def test_a_prompt_is_told_the_sentence_that_answers_it_in_other_words(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [f"In week {week} there was a long meeting about {'chairs, curtains, tea and ' * 6}cake." for week in range(30)]
    mends = "Weighing is looked after by Ivo, who holds the certificate for it and whom one may call on a Sunday."
    store(tenant, NewMemory(" ".join(["The scale of the hall is old.", *said[:8], mends, *said[8:]]), Source.CLI, Kind.NOTE))
    asked = "who is responsible for the scale in the hall?"
    assert mends in recall_for_prompt(tenant, asked).framed
    monkeypatch.setattr(operations_prompt, "weigh_answers", lambda _question: None)
    assert mends not in recall_for_prompt(tenant, asked).framed


def test_memories_beside_one_that_hardly_answers_are_pointed_at_with_a_line_each(tenant: Tenant) -> None:
    ids = {}
    for name, summary in (
        ("drain", "Winter closing of the fountain"),
        ("inlet", "Filter of the inlet"),
        ("hose", "Hoses and reels"),
    ):
        body = " ".join(
            f"The {name} of the garden is looked at in week {week} by the gardener and his boy." for week in range(30)
        )
        ids[name] = store(tenant, NewMemory(f"{summary}\n\n{body}", Source.CLI, Kind.NOTE, title=name)).id
    asked = "what about the water of the garden when it freezes?"
    lines = recall_for_prompt(tenant, asked, session="a").framed.splitlines()[3:-1]
    long, *short = sorted(lines, key=len, reverse=True)
    assert len(long) > 400
    assert {next(name for name, number in ids.items() if str(number) in line) for line in lines} == ids.keys()
    for line in short:
        assert re.fullmatch(r"- \S+ \(id \d+\) (Winter closing of the fountain|Filter of the inlet|Hoses and reels) …", line)
    again = recall_for_prompt(tenant, asked, session="a").framed.splitlines()[3:-1]
    assert not {*again} & {*short}
    for name in (name for name, number in ids.items() if str(number) not in long):
        sure = recall_for_prompt(tenant, f"who looks at the {name} of the garden in week 17?", session="a")
        assert sure.ids == (ids[name],), "what was only pointed at can be told"


def test_a_memory_about_many_things_comes_behind_one_about_the_prompt(tenant: Tenant) -> None:
    topics = (
        "deploys",
        "reviews",
        "tests",
        "migrations",
        "branches",
        "releases",
        "backups",
        "alerts",
        "invoices",
        "logins",
        "exports",
    )
    state = "".join(f"The {each} of the portal are done by {each}.sh, which the team runs on Mondays. " for each in topics * 5)
    stored = [state, "The team releases the portal only after the word of Mira."]
    long, short = (store(tenant, NewMemory(text, Source.CLI, Kind.NOTE)).id for text in stored)
    prompt = "let us release the portal on Monday"
    assert [hit.memory.id for hit in search(tenant, prompt)] == [long, short]
    assert [hit.memory.id for hit in find_for_prompt(tenant, prompt, Filters(), datetime.now(UTC))] == [short, long]


@pytest.mark.parametrize("mark", ["-", "37."])
def test_a_list_that_was_told_whole_is_not_told_again(tenant: Tenant, mark: str) -> None:
    items = "\n".join(f"{mark} the crane of berth {number} lifts boats of up to {number} tons" for number in range(10, 22))
    store(tenant, NewMemory(f"Cranes of the harbour\n\n{items}", Source.CLI, Kind.NOTE))
    question = "how many tons does the crane of berth 14 lift?"
    assert "of up to 14 tons" in recall_for_prompt(tenant, question, "s1").framed
    assert recall_for_prompt(tenant, question, "s1").ids == ()


def test_what_is_whole_though_it_has_an_ellipsis_is_told_in_little_room(tenant: Tenant, settings: Settings) -> None:
    small = Tenant(settings.model_copy(update={"prompt_recall_tokens": 130}))
    number = store(small, NewMemory("Wait for the ledger … then close the books of the quarry.", Source.CLI, Kind.NOTE)).id
    assert recall_for_prompt(small, "when do I close the books of the quarry?").ids == (number,)


def test_in_little_room_the_best_memory_comes_before_lines_that_point_at_others(tenant: Tenant, settings: Settings) -> None:
    small = Tenant(settings.model_copy(update={"prompt_recall_tokens": 140}))
    kept = (
        "Whoever holds the key of the cellar drains the fountain in November, before the first frost, and fills it again after the saints "
        "of the ice, which is in the middle of May."
    )
    store(small, NewMemory(kept, Source.CLI, Kind.NOTE))
    for name in ("inlet", "hose", "rake"):
        text = " ".join(
            f"The {name} of the garden is looked at in week {week} by the gardener and his boy." for week in range(30)
        )
        store(small, NewMemory(text, Source.CLI, Kind.NOTE))
    assert kept in recall_for_prompt(small, "the basin outside must not burst in winter, what do we do with it?").framed


_SPANISH = (
    "La base de pruebas se restaura cada lunes desde una copia; Priya se encarga de ello.",
    "Las declaraciones de aduana se envían por fax al agente Vandermeer antes del mediodía.",
    "La tetera de la oficina es roja y está en la cocina del segundo piso.",
    "Las reuniones del equipo son los jueves a las diez en la sala pequeña.",
)


@pytest.mark.parametrize("embedder", ["auto", pytest.param("e5-multilingual", marks=e5_installed)])
def test_a_prompt_in_another_language_is_told_what_it_needs_and_nothing_if_it_needs_nothing(
    settings: Settings, embedder: str
) -> None:
    spanish = Tenant(settings.model_copy(update={"embedder": embedder}))
    for text in _SPANISH:
        store(spanish, NewMemory(text, Source.CLI, Kind.NOTE))
    for prompt, needed in (
        ("¿quién se encarga de restaurar la base de pruebas?", "Priya"),
        ("¿a quién se envían las declaraciones de aduana?", "Vandermeer"),
        ("muchas gracias, sigue así por favor", ""),
        ("cambia el nombre de esta variable a total", ""),
    ):
        told = recall_for_prompt(spanish, prompt).framed
        assert needed in told
        assert bool(told) is bool(needed), prompt


_LONG = (
    "The deploy of Heron runs every Tuesday from the branch release. Backups of Heron are kept for 35 days in the bucket cold. "
    "The on-call phone of the team is with Mira Okafor until March. The certificate renews itself through the robot account ferry. "
    f"{' '.join(f'Shelf {number} has the folders of {1980 + number}.' for number in range(25))} "
    "Its feature flags are edited in the tool Flagpole by Jonas Reuter."
)


def test_a_session_that_was_told_one_passage_of_a_memory_is_told_another_when_it_needs_it(filled: Tenant) -> None:
    long = store(filled, NewMemory(_LONG, Source.CLI, Kind.NOTE)).id
    kept, flags = "how long are backups of Heron kept?", "who edits the feature flags of Heron?"
    assert "35 days" in recall_for_prompt(filled, kept, "s1").framed
    further = recall_for_prompt(filled, flags, "s1").framed
    assert "Jonas Reuter" in further
    assert "35 days" not in further
    assert long not in recall_for_prompt(filled, kept, "s1").ids
    assert long not in recall_for_prompt(filled, flags, "s1").ids


def test_a_session_that_was_told_one_fact_at_its_start_is_told_another_when_it_needs_it(filled: Tenant) -> None:
    long = store(filled, NewMemory(_LONG, Source.CLI, Kind.NOTE)).id
    short = store(filled, NewMemory("How to apply: the payroll export waits.\n- Ask Ivo.\n- Ask Ines.", Source.CLI, Kind.NOTE)).id
    start = [
        (long, f"- 2026-05-01 (id {long}) The deploy of Heron runs every Tuesday from the branch release."),
        (short, f"- (id {str(short)[:6]}) the payroll export waits. Ask Ivo; Ask Ines."),
    ]
    record_told(filled.folder, "s1", start, "start")
    assert long in recall_for_prompt(filled, "who edits the feature flags of Heron?", "s1").ids
    assert short in recall_for_prompt(filled, "whom do I ask about the payroll export?").ids
    assert short not in recall_for_prompt(filled, "whom do I ask about the payroll export?", "s1").ids


def test_a_record_of_an_earlier_release_hides_nothing_and_can_be_read(filled: Tenant) -> None:
    question = "who takes care of restoring the staging database?"
    (number,) = recall_for_prompt(filled, question, here=ATLAS).ids
    record_told(filled.folder, "s1", [], "start")
    (record,) = (filled.folder / "sessions").iterdir()
    record.write_text(
        f"{number} start 2026-05-01T10:00:00+00:00\n{number} 9f3a start 2026-05-01T10:00:00+00:00\n{number} pro", "ascii"
    )
    assert [each.memory for each in read_told(filled.folder, "s1")] == [number, number]
    assert number in recall_for_prompt(filled, question, "s1", ATLAS).ids


def test_the_newest_is_told_first_though_nobody_noticed_a_change(filled: Tenant) -> None:
    ids = [
        store(filled, NewMemory(text, Source.CLI, Kind.NOTE, created_at=datetime(2026, month, 1, tzinfo=UTC))).id
        for month, text in (
            (9, "Nadia looks after the payroll export."),
            (3, "The payroll export: Ivo looks after it."),
            (6, "The payroll export is looked after by the interns of Ivo."),
        )
    ]
    told = recall_for_prompt(filled, "who looks after the payroll export?")
    assert set(ids) <= set(told.ids)
    assert [each for each in told.ids if each in ids] == [ids[0], ids[2], ids[1]]


def test_after_a_compaction_a_prompt_is_told_again_what_it_needs(filled: Tenant) -> None:
    prompt = "who takes care of restoring the staging database?"
    (number,) = recall_for_prompt(filled, prompt, "s1", ATLAS).ids
    assert recall_for_prompt(filled, prompt, "s1", ATLAS).ids == ()
    record_told(filled.folder, "s1", [(1, "")], "compact")
    assert number in recall_for_prompt(filled, prompt, "s1", ATLAS).ids


def test_a_prompt_that_begins_with_a_path_is_told_what_it_needs(filled: Tenant) -> None:
    prompt = "/srv/dumps is full. Who takes care of restoring the staging database?"
    assert "Priya owns the job" in recall_for_prompt(filled, prompt, here=ATLAS).framed


_FRAME = '  File "/srv/app/orders/queue.py", line 214, in drain\n    message = self.broker.take(timeout=self.patience)\n'


@pytest.mark.parametrize(
    "pasted",
    [
        "".join(f"2026-05-01 10:00:{n % 60:02} WARN broker of the customs queue is slow, retry {n}\n" for n in range(90)),
        f"Traceback (most recent call last):\n{_FRAME * 50}BrokerError: the customs queue is closed\n",
        f"Traceback (most recent call last):\n{_FRAME * 9}",
        "```python\ndeclarations = broker.take_customs(before=noon)\n```\n" * 60,
    ],
    ids=["log", "traceback", "cut-off traceback", "code"],
)
def test_a_prompt_is_told_what_it_needs_above_and_below_what_was_pasted(filled: Tenant, pasted: str) -> None:
    question = "who takes care of restoring the staging database?"
    plain = recall_for_prompt(filled, question, here=ATLAS)
    assert plain.ids
    assert recall_for_prompt(filled, f"{question}\n\n{pasted}", here=ATLAS) == plain
    assert recall_for_prompt(filled, f"{pasted}\n\n{question}", here=ATLAS) == plain


def test_a_pasted_letter_is_read_with_the_question() -> None:
    pasted = '\n\n<pasted_content id="cd4c">\nThe broker is slow.\n</pasted_content id="cd4c">\n\n'
    assert read_question(f"Why?{pasted}").split() == ["Why?", "The", "broker", "is", "slow."]


def test_a_question_below_much_text_is_read() -> None:
    walked, question = "We walked along the river and had soup in the evening. " * 60, "Who restores the staging database?"
    read = read_question(f"{walked}\n{question}")
    assert read.startswith("We walked")
    assert read.endswith(question)
    assert len(read) <= LONGEST_PROMPT + 1


def test_a_prompt_that_needs_nothing_is_told_nothing(filled: Tenant) -> None:
    for prompt in ["ok, go ahead", "thanks!", "yes please", "/memory:learn", "", "run it again"]:
        assert recall_for_prompt(filled, prompt, session="s1", here=ATLAS).framed == "", prompt
        assert not (filled.folder / "sessions").exists(), prompt


def test_talk_without_a_topic_is_told_nothing_though_a_memory_has_its_words(filled: Tenant) -> None:
    store(
        filled,
        NewMemory(
            "Whether a layout looks good, so perfect that all say thanks, is decided by Ines.", Source.CLI, project="/src/atlas"
        ),
    )
    store(filled, NewMemory("Warum das Lager brannte, weiß keiner so genau.", Source.CLI, project="/src/atlas"))
    for prompt in ("looks good", "Perfect, thanks!", "warum?", "so genau", "ja bitte"):
        assert recall_for_prompt(filled, prompt, here=ATLAS).ids == (), prompt
    assert recall_for_prompt(filled, "warum brannte das Lager?", here=ATLAS).ids


def test_the_same_topic_is_told_to_a_question_and_not_to_a_command(filled: Tenant) -> None:
    number = store(filled, NewMemory("The integration tests run on the host otter, never on staging.", Source.CLI)).id
    assert number in recall_for_prompt(filled, "where do the integration tests run?", here=ATLAS).ids
    assert recall_for_prompt(filled, "great, now shorten that function and run the tests again", here=ATLAS).ids == ()


def test_another_projects_memory_is_not_told(filled: Tenant) -> None:
    assert recall_for_prompt(filled, "which colour has the office kettle?", here=ATLAS).ids == ()
    assert recall_for_prompt(filled, "which colour has the office kettle?", here=None).ids


def test_it_can_be_switched_off(filled: Tenant) -> None:
    off = Tenant(filled.settings.model_copy(update={"prompt_recall": "off"}))
    assert recall_for_prompt(off, "who takes care of restoring the staging database?").ids == ()
    set_quiet(filled.folder, ATLAS, quiet=True)
    assert recall_for_prompt(filled, "who takes care of restoring the staging database?", here=ATLAS).ids == ()


def test_what_is_told_fits_into_its_tokens(filled: Tenant) -> None:
    for number in range(8):
        store(
            filled,
            NewMemory(f"The staging database note {number}: " + "it is restored slowly and often. " * 20, Source.CLI, Kind.NOTE),
        )
    told = recall_for_prompt(filled, "how often is the staging database restored?")
    assert told.ids
    assert count_tokens(told.framed) <= filled.settings.prompt_recall_tokens


def test_the_sentence_that_a_prompt_needs_is_told_to_its_end_below_a_long_title(filled: Tenant) -> None:
    before = "Kontora sold us the first ones, and nobody was pleased with these at all."
    needed = f"The staging certificate renews itself {'with much care ' * 8}through the robot account ferry."
    text = f"{before} {needed} {'Little else was said there. ' * 20}"
    store(filled, NewMemory(text, Source.CLI, Kind.NOTE, title="What everybody should know of the certificate of staging"))
    told = recall_for_prompt(filled, "how does the staging certificate of Kontora renew itself?").framed
    assert "through the robot account ferry." in told


def test_the_hook_reaches_it_as_a_tool_that_is_not_listed(filled: Tenant) -> None:
    server = Server(Session(filled, ATLAS))
    listed = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert "recall_for_prompt" not in json.dumps(listed)
    recall_for_prompt(filled, "warm")
    output = json.loads(_hook(server, "who takes care of restoring the staging database?"))["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    assert "Priya" in output["additionalContext"]
    assert _hook(server, "ok, go ahead") == "{}"
    (filled.folder / "vectors" / "memories.lance" / "_versions").rename(filled.folder / "moved")
    assert _hook(server, "what about the customs broker?") == "{}"


def test_a_day_is_told_in_the_zone_of_the_settings(filled: Tenant) -> None:
    there = Tenant(filled.settings.model_copy(update={"timezone": "Europe/Berlin"}))
    moment = datetime(2026, 8, 31, 22, tzinfo=UTC)
    store(there, NewMemory("Nadia looks after the payroll export.", Source.CLI, Kind.NOTE, created_at=moment))
    assert "2026-09-01 (id" in recall_for_prompt(there, "who looks after the payroll export?").framed
    guessed = NewMemory("Edda looks after the pension export.", Source.CLI, Kind.NOTE, metadata={"guessed": ["created_at"]})
    store(there, guessed)
    assert "- (id" in recall_for_prompt(there, "who looks after the pension export?").framed


def test_a_context_tells_days_in_the_zone_of_the_settings(filled: Tenant) -> None:
    there = Tenant(filled.settings.model_copy(update={"timezone": "Europe/Berlin"}))
    moment = datetime(2026, 8, 31, 22, tzinfo=UTC)
    store(there, NewMemory("Nadia looks after the payroll export.", Source.CLI, Kind.NOTE, created_at=moment))
    assert "· 1 Sep" in context(there, ["payroll export"]).document
    assert '"created":"2026-09-01"' in context(there, ["payroll export"], form="json").document


def test_what_comes_too_late_for_the_hook_is_not_noted_as_told(filled: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    server, prompt = Server(Session(filled, ATLAS)), "who takes care of restoring the staging database?"
    find, may_find = operations_prompt.find_for_prompt, Event()

    def find_late(*given: Any, **named: Any) -> Any:
        may_find.wait()
        return find(*given, **named)

    monkeypatch.setattr(operations_prompt, "find_for_prompt", find_late)
    monkeypatch.setattr(tools, "_PROMPT_SECONDS", 0.0)
    assert _hook(server, prompt) == "{}"
    may_find.set()
    with tools._RECALLING[filled]:  # the late search has ended
        assert read_told(filled.folder, "s9") == []
    monkeypatch.setattr(tools, "_PROMPT_SECONDS", 60.0)
    assert "Priya" in _hook(server, prompt)


def test_the_hook_answers_in_time_though_what_it_needs_is_still_loading(filled: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    may_load, has_loaded = Event(), Event()

    class SlowDisk:
        def find_spec(self, name: str, *_: object) -> None:
            if name == operations_prompt.__name__:
                may_load.wait(5)
                has_loaded.set()

    monkeypatch.setattr(sys, "meta_path", [SlowDisk(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, operations_prompt.__name__)
    monkeypatch.delattr(operations, "prompt")
    assert _hook(Server(Session(filled, ATLAS)), "who takes care of restoring the staging database?") == "{}"
    assert not has_loaded.is_set()
    may_load.set()
    with tools._RECALLING[filled]:
        assert has_loaded.is_set()


def test_a_session_that_moved_to_another_project_recalls_and_stores_there(
    filled: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_PROMPT_SECONDS", 60.0)
    beta = tmp_path / "beta"
    (beta / "docs").mkdir(parents=True)
    store(filled, NewMemory("The dock of the ferry opens at nine.", Source.CLI, Kind.NOTE, project=str(beta)))
    server = Server(session := Session(filled, ATLAS))
    prompt = "when does the dock of the ferry open?"
    moved = str(tmp_path / slug_of(str(beta)) / "s9.jsonl")
    assert "at nine" not in _hook(server, prompt, directory="/src/atlas/docs", transcript="/silos/-src-atlas/s9.jsonl")
    assert "at nine" in _hook(server, prompt, directory=str(beta / "docs"), transcript=moved)
    tools.store.function(session, "The crane of the yard is yellow.")
    (stored,) = filled.memories.recent(1, Filters())
    assert (stored.content, stored.project) == ("The crane of the yard is yellow.", str(beta))


@pytest.mark.parametrize("odd", ["", "no\0path", "/gone", "\ud800", "/" + "x" * 5_000, "relative"])
def test_an_odd_directory_or_transcript_changes_nothing(filled: Tenant, odd: str) -> None:
    server = Server(session := Session(filled, ATLAS))
    for transcript in (odd, f"/silos/{slug_of(odd)}/s9.jsonl", "/silos/-src-atlas/s9.jsonl"):
        assert _hook(server, "ok, go ahead", directory=odd, transcript=transcript) == "{}"
    assert session.here == ATLAS


def test_a_service_does_not_look_for_a_clients_directory(filled: Tenant, tmp_path: Path) -> None:
    server = Server(session := Session(filled, ATLAS, may_name_files=False))
    transcript = str(tmp_path / slug_of(str(tmp_path)) / "s9.jsonl")
    assert _hook(server, "ok, go ahead", directory=str(tmp_path), transcript=transcript) == "{}"
    assert session.here == ATLAS


def test_a_prompt_waits_for_a_server_that_is_still_loading_but_not_for_long(
    filled: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loading(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout)
            if timeout:
                self.set()
            return self.is_set()

    waited: list[float | None] = []
    server, prompt = Server(Session(filled, ATLAS, is_ready=Loading())), "who takes care of restoring the staging database?"
    monkeypatch.setattr(tools, "_FIRST_PROMPT_SECONDS", 0.0)
    assert _hook(server, prompt) == "{}"
    with tools._RECALLING[filled]:
        assert read_told(filled.folder, "s9") == []
    monkeypatch.setattr(tools, "_PROMPT_SECONDS", 0.0)
    monkeypatch.setattr(tools, "_FIRST_PROMPT_SECONDS", 60.0)
    assert "Priya" in _hook(server, prompt)
    assert waited == [0.0, 60.0]


def _hook(server: Server, prompt: str, **more: str) -> str:
    """Return the answer of the prompt hook in session s9."""
    answered = server.answer(
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "recall_for_prompt", "arguments": {"prompt": prompt, "session": "s9", **more}},
        }
    )
    assert answered
    assert answered["result"]["isError"] is False
    return answered["result"]["content"][0]["text"]
