from random import Random

from hypothesis import given
from hypothesis import strategies as st

from memory_assets.graph import naming
from memory_assets.graph.entities import Surface, key_of, normalised, resolve


def groups(*surfaces: Surface, **options) -> set[frozenset[str]]:
    found: dict[int, set[str]] = {}
    for (text, _), number in resolve(surfaces, **options).items():
        found.setdefault(number, set()).add(text)
    return {frozenset(texts) for texts in found.values()}


def person(text: str, memories: int = 1) -> Surface:
    return Surface(text, "PERSON", memories)


def test_case_accents_titles_possessives_and_last_first_are_one_person():
    assert groups(
        person("Hanna Brückmoor"), person("HANNA BRUCKMOOR"), person("Dr. Hanna Brückmoor"), person("Brückmoor, Hanna"),
        person("Hanna Brückmoor's"), person("@Hanna Brückmoor"),
    ) == {frozenset({"Hanna Brückmoor", "HANNA BRUCKMOOR", "Dr. Hanna Brückmoor", "Brückmoor, Hanna", "Hanna Brückmoor's",
                     "@Hanna Brückmoor"})}  # fmt: skip


def test_a_slip_of_the_pen_joins_the_commoner_spelling():
    assert groups(person("Tomasz Wielgorad", 9), person("Tomas Wielgorad")) == {
        frozenset({"Tomasz Wielgorad", "Tomas Wielgorad"})
    }


def test_names_that_begin_differently_or_stand_side_by_side_are_two():
    assert len(groups(person("Anna Schmidt"), person("Hanna Schmidt"))) == 2
    assert len(groups(person("Maria Lopez", 5), person("Marta Lopez"), together=[("Maria Lopez", "Marta Lopez")])) == 2


def test_numbers_tell_things_apart():
    assert len(groups(Surface("Release Plan 16", "PROJECT", 3), Surface("Release Plan 17", "PROJECT"))) == 2


def test_two_equally_good_spellings_are_left_alone():
    assert len(groups(person("Jana Keller", 5), person("Jane Keller", 5), person("Jan Keller"))) == 3


def test_a_first_name_joins_the_only_full_name_that_has_it():
    assert groups(person("Priya"), person("Priya Vendakar")) == {frozenset({"Priya", "Priya Vendakar"})}
    ambiguous = groups(person("Priya"), person("Priya Vendakar"), person("Priya Nair"))
    assert frozenset({"Priya"}) in ambiguous
    assert len(ambiguous) == 3


def test_a_mistaken_type_makes_no_second_node_but_files_and_tags_stay_apart():
    assert len(groups(Surface("Atlas", "PERSON"), Surface("Atlas", "NAME", 9), Surface("Atlas", "LOC"))) == 1
    apart = resolve([Surface("notes", "FILE"), Surface("notes", "TAG"), Surface("notes", "NAME")])
    assert len(set(apart.values())) == 3


def test_gazetteer_spellings_are_one():
    surfaces = Surface("postgres", "DATABASE"), Surface("PostgreSQL", "DATABASE")
    assert len(groups(*surfaces)) == 2
    keys = {(each.text, each.type): key_of(each, {"postgres": "PostgreSQL"}) for each in surfaces}
    assert len(groups(*surfaces, keys=keys)) == 1


def test_ids_stay_when_a_full_name_arrives_and_when_a_group_falls_apart():
    before = resolve([person("Priya", 3)])
    joined = resolve([person("Priya", 3), person("Priya Vendakar")], known=before)
    assert set(joined.values()) == {before["Priya", "PERSON"]}
    apart = resolve([person("Priya", 3), person("Priya Vendakar"), person("Priya Nair")], known=joined)
    assert apart["Priya", "PERSON"] == before["Priya", "PERSON"]
    assert len(set(apart.values())) == 3


def test_names_of_one_family_by_the_ten_thousand_are_compared_in_a_bounded_way(monkeypatch):
    from rapidfuzz import process

    from memory_assets.graph import entities

    compared = []
    cdist = process.cdist

    def counting(one, other, **options):
        compared.append(len(one) * len(other))
        return cdist(one, other, **options)

    monkeypatch.setattr(process, "cdist", counting)
    chance = Random(3)
    family = [person(f"Ana S{''.join(chance.choices('abcdefghiklmnoprst', k=12))}", 5) for _ in range(10_000)]
    right = family[4_321].text
    found = resolve([*family, person(right[:-2] + right[-1])])
    assert found[right[:-2] + right[-1], "PERSON"] == found[right, "PERSON"]
    assert len(set(found.values())) == len(family)
    assert sum(compared) <= 5 * entities._BLOCK * len(family)


def test_a_name_is_weighed_a_few_times_however_many_resemble_it(monkeypatch):
    from memory_assets.graph import entities

    weighed = []
    kind_of = entities._most_common_type
    monkeypatch.setattr(entities, "_most_common_type", lambda types: weighed.append(types) or kind_of(types))
    chance = Random(4)
    family = [person(f"Ana S{''.join(chance.choices(('ba', 'bo', 'da', 'do'), k=6))}") for _ in range(3_000)]
    resolve(family)
    assert len(weighed) <= 8 * len(family)


NAMES = st.text(st.sampled_from("abAB é.,'1 @-"), min_size=1, max_size=12).filter(str.strip)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["PERSON", "NAME", "FILE", "TAG"])), unique=True, max_size=12))
def test_resolution_is_total_repeatable_and_keeps_its_ids(pairs):
    surfaces = [Surface(text, kind) for text, kind in pairs]
    first = resolve(surfaces)
    assert first.keys() == set(pairs)
    assert resolve(list(reversed(surfaces))) == first
    assert resolve(surfaces, known=first) == first
    assert all(0 < number < 1 << 53 for number in first.values())


@given(NAMES)
def test_case_and_outer_spaces_never_tell_names_apart(text):
    assert normalised(f" {text.upper()} ", "NAME") == normalised(text, "NAME")


def test_of_other_names_only_those_ids_are_read_that_a_changed_name_could_get(world, monkeypatch):
    read = []
    settle = naming.resolve
    monkeypatch.setattr(
        naming, "resolve", lambda *given, taken, **named: read.append(taken) or settle(*given, taken=taken, **named)
    )
    for number in range(1, 60):
        world.put(number, names=[(f"{chr(65 + number % 26)}na{number} {chr(65 + number // 26)}berg", "PERSON")])
    world.refresh()
    world.put(100, names=[("Ulla Wiesner", "PERSON"), ("Ana1 Aberg", "PERSON")])
    world.refresh()
    assert len(read[-1]) <= 2
