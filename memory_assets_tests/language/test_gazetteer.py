import re
from pathlib import Path

import pytest

from memory_assets.errors import InvalidInputError
from memory_assets.language.entity_types import EntityType
from memory_assets.language.gazetteer import Gazetteer, load_gazetteer
from memory_assets.language.pipeline import open_analyzer
from memory_assets.tenants import Tenant


@pytest.fixture(scope="module")
def bundled() -> Gazetteer:
    return load_gazetteer((), {})


def found(gazetteer: Gazetteer, text: str) -> list[tuple[str, str]]:
    return [(hit.mention.text, hit.mention.type.value) for hit in gazetteer.find(text)]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("we like duckdb", [("duckdb", "DATABASE")]),
        ("Postgres/Redis", [("Postgres", "DATABASE"), ("Redis", "DATABASE")]),
        ("C++, C# and .NET", [("C++", "LANGUAGE"), ("C#", "LANGUAGE"), (".NET", "TOOL")]),
        ("rewritten in rust", [("rust", "LANGUAGE")]),
        ("needs Go 1.22", [("Go", "LANGUAGE")]),
        ("prefers Go", [("Go", "LANGUAGE")]),
        ("docker compose up", [("docker compose", "TOOL")]),
        ("Claude Code and Claude", [("Claude Code", "TOOL"), ("Claude", "PRODUCT")]),
        ("ask Alice Chen-Li", [("Alice Chen-Li", "PERSON")]),
        ("Maria Álvarez met Peter Šimek", [("Maria Álvarez", "PERSON"), ("Peter Šimek", "PERSON")]),
        ("Alice Postgres", [("Alice", "PERSON"), ("Postgres", "DATABASE")]),
        ("Mei-Ling called", [("Mei-Ling", "PERSON")]),
    ],
)
def test_known_names_are_found(bundled: Gazetteer, text: str, entities: list[tuple[str, str]]):
    assert found(bundled, text) == entities


@pytest.mark.parametrize(
    "text",
    [
        "go to the store",
        "Go home",
        "plan C",
        "they rust",
        "a swift reply",
        "cut him some slack",
        "a linear scan",
        "click the button",
        "the python at the zoo",
        "my_redis_client",
        "redis.example",
        "@redis",
        "react to it",
        "bake at 180 °C 45 min",
        "the Fritz!Box 7590",
    ],
)
def test_words_that_are_spelt_like_a_name_are_not(bundled: Gazetteer, text: str):
    assert found(bundled, text) == []


def test_an_alias_stands_for_its_name(bundled: Gazetteer):
    assert bundled.canonical["k8s"] == "Kubernetes"
    assert bundled.canonical["postgres"] == "PostgreSQL"


def test_the_users_file_adds_and_overrides(tmp_path: Path):
    own = tmp_path / "gazetteer.toml"
    own.write_text(
        '[PROJECT]\ncertain = ["Quillstack", "Redis"]\n[PROJECT.aliases]\nQuillstack = ["qs-core"]\n', encoding="utf-8"
    )
    gazetteer = load_gazetteer([own], {})
    assert found(gazetteer, "quillstack uses Redis") == [("quillstack", "PROJECT"), ("Redis", "PROJECT")]
    assert gazetteer.canonical["qs-core"] == "Quillstack"
    assert found(gazetteer, "on DuckDB") == [("DuckDB", "DATABASE")]


def test_the_users_cues_stand_beside_the_bundled_ones(tmp_path: Path):
    own = tmp_path / "gazetteer.toml"
    own.write_text('[TOOL]\ncued = ["Rake"]\nafter = ["tasks"]\n', encoding="utf-8")
    gazetteer = load_gazetteer([own], {})
    assert found(gazetteer, "the rake tasks hang") == [("rake", "TOOL")]
    assert found(gazetteer, "a rake in the garden") == []
    assert found(gazetteer, "the cursor plugin") == [("cursor", "TOOL")]


def test_the_example_in_the_documentation_is_a_gazetteer_where_it_says(tenant: Tenant):
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    (place,) = re.findall(r"`(\S*gazetteer\.toml)` in the data folder", page)
    own = tenant.settings.data_dir / place.replace("<tenant>", tenant.name)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    gazetteer = tenant.analyzer.gazetteer
    assert found(gazetteer, "we like qs-core") == [("qs-core", "PROJECT")]
    assert found(gazetteer, "oil the Sprocket of the bicycle") == []


def test_a_users_file_that_does_not_exist_is_an_empty_one(tmp_path: Path):
    assert load_gazetteer([tmp_path / "none.toml"], {}).entries


def test_a_users_file_serves_the_analyzer(tmp_path: Path):
    own = tmp_path / "gazetteer.toml"
    own.write_text('[SERVICE]\ncertain = ["Fizzgig"]\n', encoding="utf-8")
    entities = open_analyzer(gazetteer_paths=[own]).analyze("We moved everything to fizzgig.").entities
    assert [(entity.text, entity.type) for entity in entities] == [("fizzgig", "SERVICE")]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[TOOL", "cannot be read as TOML"),
        ("[GADGET]\ncertain = ['x']", "[GADGET] names the unknown entity type 'GADGET': use one of PERSON"),
        ("[TOOL]\nsure = ['x']", "[TOOL] has the unknown key 'sure': use one of certain"),
        ("[TOOL]\ncertain = 'x'", "[TOOL] certain must be a list of strings"),
        ("[TOOL]\ncertain = ['']", "[TOOL] certain must be a list of strings"),
        ("[TOOL]\ncertain = ['???']", "[TOOL] certain must be a list of strings with a letter or digit in each"),
        ("[TOOL.aliases]\nX = ['y']", "[TOOL] aliases.X belongs to no name"),
        ("[TOOL.unless]\nX = ['y']", "[TOOL] unless.X belongs to no name"),
        ("[TOOL]\naliases = ['y']", "[TOOL] aliases and unless must be tables"),
        ("TOOL = 3", "[TOOL] must be a table"),
        ("[ignore]\nwords = 3", "[ignore] words must be a list"),
    ],
)
def test_a_broken_users_file_is_refused_by_file_field_and_mend(tmp_path: Path, toml: str, said: str):
    own = tmp_path / "gazetteer.toml"
    own.write_text(toml, encoding="utf-8")
    with pytest.raises(InvalidInputError) as caught:
        load_gazetteer([own], {})
    assert said in str(caught.value)
    assert str(own) in str(caught.value)


def test_known_names_are_found_in_any_casing_where_they_are_names():
    analyzer = open_analyzer(known_names={"Quillstack": "PROJECT", "Grace": "PERSON"})

    def names(text: str) -> set[tuple[str, str]]:
        return {(entity.text, entity.type) for entity in analyzer.analyze(text).entities}

    assert ("quillstack", "PROJECT") in names("The build of quillstack is slow.")
    assert ("QUILLSTACK", "PROJECT") in names("QUILLSTACK needs a new parser.")
    assert ("Grace", "PERSON") in names("Grace wrote the report.")
    assert names("They accepted the defeat with a certain grace.") == set()


def test_known_names_win_over_ambiguous_names_but_not_over_unmistakable_ones():
    gazetteer = load_gazetteer((), {"Redis": "PROJECT", "Linear": "PROJECT", "Alice": "PERSON", "🚀": "PROJECT"})
    assert found(gazetteer, "Redis in Linear") == [("Redis", "DATABASE"), ("Linear", "PROJECT")]
    assert found(gazetteer, "ask Alice Chen") == [("Alice Chen", "PERSON")]


def test_a_known_name_of_an_unknown_type_is_refused():
    with pytest.raises(InvalidInputError, match="known name 'X' names the unknown entity type 'GADGET'"):
        load_gazetteer((), {"X": "GADGET"})


def test_every_bundled_name_is_found_by_itself_or_beside_a_cue(bundled: Gazetteer):
    for spellings in bundled.entries.values():
        for entry in spellings.values():
            cue = {EntityType.LANGUAGE: "written in", EntityType.DATABASE: "database", EntityType.SERVICE: "deployed to"}
            text = f"we {cue.get(entry.type, 'use')} {entry.written}"
            text = f"the framework {entry.written}" if entry.type is EntityType.TOOL else text
            assert any(hit.mention.text.startswith(entry.written) for hit in bundled.find(text)), entry


def test_thousands_of_names_that_begin_alike_are_looked_up_by_their_lengths(tmp_path: Path):
    names = {f"Ana {'Lindqvist'[: 3 + number % 6]}{number}": "PERSON" for number in range(3_000)}
    gazetteer = load_gazetteer([], names | {"Ana Lind": "PERSON", "Ana Lind Berg": "PERSON"})
    assert len(gazetteer.extents["ana"]) < 20
    assert [hit.mention.text for hit in gazetteer.find("ana lind berg met Ana Lind, and ana Linden.")][:2] == [
        "ana lind berg",
        "Ana Lind",
    ]
