import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.errors import SettingsError
from memory_assets.language import pipeline
from memory_assets.language.entity_types import EntityType
from memory_assets.language.pipeline import AnalysisError, Analyzer, open_analyzer
from memory_assets.language.tags import normalise_tag

SENTENCES = [
    row["text"] for row in map(json.loads, (Path(__file__).parents[1] / "data/entity_sentences.jsonl").read_text().splitlines())
][:60]


def entities(analyzer: Analyzer, text: str) -> list[tuple[str, str]]:
    return [(entity.text, entity.type) for entity in analyzer.analyze(text).entities]


def test_a_memory_is_understood(analyzer: Analyzer):
    features = analyzer.analyze("Yesterday Alice debugged the DuckDB lock in Atlas.")
    found = [(entity.text, entity.type) for entity in features.entities]
    assert found[:2] == [("Alice", "PERSON"), ("DuckDB", "DATABASE")]
    assert "debug" in features.actions
    assert {"alice", "duckdb", "duckdb-lock"} <= set(features.tags)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("He stole the idea.", "steal"),
        ("They are debugging the parser.", "debug"),
        ("She has written a test.", "write"),
        ("The build broke yesterday.", "break"),
        ("We will migrate the table.", "migrate"),
        ("They had forgotten the key.", "forget"),
    ],
)
def test_an_action_is_the_lemma_of_its_verb_in_any_tense(analyzer: Analyzer, text: str, action: str):
    assert analyzer.analyze(text).actions == (action,)


def test_auxiliaries_and_modals_are_no_actions(analyzer: Analyzer):
    assert analyzer.analyze("The cache is small and should be bigger.").actions == ()


def test_actions_come_once_and_in_order(analyzer: Analyzer):
    assert analyzer.analyze("Alice wrote it, Bob read it, then Carla wrote it again.").actions == ("write", "read")


def test_a_known_name_wins_over_what_a_model_guesses(analyzer: Analyzer):
    assert ("Sofia", "LOC") in entities(analyzer, "The team offsite is in Sofia, Bulgaria.")
    assert ("Cassandra", "DATABASE") in entities(analyzer, "We replaced Cassandra with something smaller.")


def test_the_longer_mention_wins(analyzer: Analyzer):
    found = entities(analyzer, "Tests run on GitHub Actions, code is on GitHub.")
    assert found == [("GitHub Actions", "TOOL"), ("GitHub", "SERVICE")]
    assert entities(analyzer, "See docs/postgres-notes.md.") == [("docs/postgres-notes.md", "FILE")]


def test_a_project_is_known_by_the_word_beside_it(analyzer: Analyzer):
    assert ("Marigold", "PROJECT") in entities(analyzer, "Project Marigold was cancelled.")
    assert ("Railwatch", "PROJECT") in entities(analyzer, "Look into the Railwatch repository.")


def test_a_quoted_title_is_a_name_and_quoted_speech_is_none(analyzer: Analyzer):
    assert ("Blue Harbor", "NAME") in entities(analyzer, 'The "Blue Harbor" launch slipped.')
    assert entities(analyzer, 'She said "Use the smaller model" and left.') == []


@pytest.mark.parametrize(
    "text",
    [
        "Next steps: profile the tokenizer.",
        "The API returns JSON over HTTP on Monday.",
        "TODO: ask the CEO about the Q3 budget.",
        "Decision: never deploy in December.",
    ],
)
def test_common_phrases_are_no_entities(analyzer: Analyzer, text: str):
    assert entities(analyzer, text) == []


def test_a_name_is_listed_once_and_under_one_type(analyzer: Analyzer):
    found = entities(analyzer, "The Atlas repository is big. Atlas is old. Alice likes Atlas, and alice@x.example too.")
    names = [name.casefold() for name, _ in found]
    assert len(names) == len(set(names))
    assert dict(found)["Atlas"] == "PROJECT"


def test_auto_tags_take_the_full_name_of_an_abbreviation(analyzer: Analyzer):
    assert "kubernetes" in analyzer.analyze("The k8s cluster is down.").tags


def test_addresses_and_paths_make_no_tags(analyzer: Analyzer):
    tags = analyzer.analyze("See https://x.example/guide and src/atlas/graph.py.").tags
    assert not any("/" in tag or "example" in tag or "atlas" in tag for tag in tags)


@given(st.sampled_from(SENTENCES))
@settings(max_examples=30)
def test_features_keep_their_promises(text: str):
    features = open_analyzer().analyze(text)
    assert len(features.tags) <= 5
    assert all(normalise_tag(tag, inflect=False) == tag for tag in features.tags)
    assert len(set(features.tags)) == len(features.tags)
    assert len(set(features.actions)) == len(features.actions)
    assert all(entity.type in EntityType for entity in features.entities)
    assert all(entity.text in text for entity in features.entities)


@pytest.mark.parametrize("text", ["", " ", "🚀", "机器学习很好", "Größe prüfen", "a" * 7_500, "x\n" * 3_000, "((((" * 500])
def test_any_text_can_be_analysed(analyzer: Analyzer, text: str):
    assert len(analyzer.analyze(text).tags) <= 5


def test_a_batch_gives_what_one_at_a_time_gives(analyzer: Analyzer):
    assert analyzer.analyze_batch(SENTENCES) == [analyzer.analyze(text) for text in SENTENCES]
    assert analyzer.analyze_batch([]) == []


def test_the_name_tells_pipeline_version_and_rules(analyzer: Analyzer):
    assert "+rules-" in analyzer.name
    assert analyzer.name.split("+")[0].rsplit("-", 1)[1][0].isdigit()


@pytest.mark.parametrize("model", ["en_core_web_huge", "json", "/nowhere", "en core", ""])
def test_a_pipeline_that_is_not_there_is_refused_with_the_mend(model: str):
    with pytest.raises(SettingsError, match=r"is not installed: install it .* or choose 'bundled'"):
        open_analyzer(model)


def test_any_installed_pipeline_may_be_chosen_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "en_of_my_own"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import spacy\n"
        "from memory_assets.language.pipeline import BUNDLED_PATH\n"
        "def load(**options):\n"
        "    return spacy.load(BUNDLED_PATH, **options)\n",
        encoding="utf-8",
    )
    (tmp_path / "en_of_my_own-1.2.dist-info").mkdir()
    (tmp_path / "en_of_my_own-1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: en_of_my_own\nVersion: 1.2\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = open_analyzer("en_of_my_own")
    assert own.name.startswith("en_of_my_own-1.2+rules-")
    assert own.analyze("Alice uses DuckDB.") == open_analyzer().analyze("Alice uses DuckDB.")


def test_threads_that_share_an_analyzer_get_the_same_features(analyzer: Analyzer):
    with ThreadPoolExecutor(max_workers=4) as pool:
        assert list(pool.map(analyzer.analyze, SENTENCES)) == analyzer.analyze_batch(SENTENCES)


def test_a_pipeline_without_what_is_needed_is_refused(tmp_path: Path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    analyzer = open_analyzer(str(tmp_path / "blank"))
    with pytest.raises(SettingsError, match=r"lacks .*a parser.*: choose a complete one"):
        analyzer.analyze("Hello there.")


def test_a_pipeline_that_cannot_be_loaded_is_refused(tmp_path: Path):
    (tmp_path / "meta.json").write_text('{"lang": "en", "name": "broken", "version": "1"}', encoding="utf-8")
    with pytest.raises(SettingsError, match=r"cannot be loaded"):
        open_analyzer(str(tmp_path)).analyze("Hello there.")


def test_importing_and_opening_load_no_heavy_library():
    code = (
        "import sys; from memory_assets.language import pipeline, process, tags, times, intervals, tokens;"
        "pipeline.open_analyzer(); heavy = {'spacy', 'dateparser', 'tiktoken', 'httpx', 'bpe_openai'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_one_bad_text_of_a_batch_fails_alone(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch):
    whole = pipeline.find

    def stumble(doc, part, gazetteer):
        if "poison" in part.text:
            raise IndexError("out of words")
        return whole(doc, part, gazetteer)

    monkeypatch.setattr(pipeline, "find", stumble)
    texts = [SENTENCES[0], "This is poison.", SENTENCES[1]]
    good, bad, also_good = analyzer.outcomes(texts)
    assert [good, also_good] == analyzer.analyze_batch([SENTENCES[0], SENTENCES[1]])
    assert isinstance(bad, AnalysisError)
    assert bad.index == 1
    with pytest.raises(AnalysisError, match="out of words"):
        analyzer.analyze_batch(texts)


def test_a_text_that_takes_too_long_is_given_up_alone(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline, "_TIME_LIMIT", 0.0)
    (outcome,) = analyzer.outcomes(["Alice wrote it."])
    assert isinstance(outcome, AnalysisError)


def test_a_long_text_lets_a_short_one_go_before_its_end(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch):
    analyzer.analyze("Warm.")
    begun, done = Event(), list[str]()
    document = pipeline._document

    def noting(nlp: Any, part: Any) -> Any:
        begun.set()
        return document(nlp, part)

    def work(name: str, text: str) -> None:
        analyzer.analyze(text)
        done.append(name)

    monkeypatch.setattr(pipeline, "_document", noting)
    long = Thread(target=work, args=("long", " ".join(SENTENCES) * 12))
    long.start()
    assert begun.wait(60)
    work("short", "Alice wrote it.")
    long.join()
    assert done == ["short", "long"]


def test_words_of_texts_long_gone_are_not_kept(analyzer: Analyzer):
    analyzer.analyze("Warm.")
    strings = pipeline._load_pipeline(str(pipeline.BUNDLED_PATH)).vocab.strings
    before = len(strings)
    analyzer.analyze(" ".join(f"unheard{number} of{number}" for number in range(200)))
    assert len(strings) == before


def test_what_a_text_gives_does_not_depend_on_its_neighbours_in_the_batch(analyzer: Analyzer):
    long = "\n\n".join(SENTENCES)
    assert analyzer.analyze_batch([*SENTENCES[:5], long, *SENTENCES[5:8]])[5] == analyzer.analyze(long)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sparkle stole pizza and ran away", [("Sparkle", "PERSON")]),
        ("Oona bought a pump", [("Oona", "PERSON")]),
        ("OneDrive is full", [("OneDrive", "SERVICE")]),
        ("Runs EXPLAIN ANALYZE on the snapshot", []),
        ("Handover of the billing export to the team", []),
        ("It belongs to Priya\nOwner is the team", [("Priya", "PERSON")]),
    ],
)
def test_names_are_told_from_words_with_a_capital(analyzer: Analyzer, text: str, expected: list[tuple[str, str]]):
    assert entities(analyzer, text) == expected


def test_a_predicate_makes_a_tag_beside_its_subject(analyzer: Analyzer):
    assert analyzer.analyze("User is a data engineer at a logistics company.").tags == ("data-engineer", "logistics-company")


def test_a_finite_verb_is_part_of_no_tag(analyzer: Analyzer):
    assert analyzer.analyze("Nina prefers tabs").tags == ("nina", "tab")
    assert analyzer.analyze("The cat stole pizza").tags == ("cat", "pizza")


def test_the_pipeline_loads_without_spacys_command_line_which_can_still_be_imported() -> None:
    program = """
import sys
from memory_assets.language.pipeline import open_analyzer
open_analyzer().load()
assert "spacy.cli" not in sys.modules
import spacy.cli
assert callable(spacy.cli.download)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
