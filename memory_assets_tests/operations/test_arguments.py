from itertools import cycle

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.graph.edges import refresh_graph
from memory_assets.models import NewMemory, Source
from memory_assets.operations.arguments import Narrowing, find_memory
from memory_assets.operations.search import search
from memory_assets.operations.store import store
from memory_assets.tenants import Tenant


def found(tenant: Tenant, entities: tuple[str, ...] = (), actions: tuple[str, ...] = ()) -> set[str]:
    narrowed = Narrowing(entities=entities, actions=actions)
    return {memory.content for memory in search(tenant, "billing export", narrowed=narrowed).memories}


def test_search_is_narrowed_to_what_names_somebody_and_to_what_was_done(tenant: Tenant) -> None:
    decided = store(tenant, NewMemory("Alice Morgan decided to move the billing export.", Source.CLI)).content
    paid = store(tenant, NewMemory("Bob Hansen paid for the billing export.", Source.CLI)).content
    assert found(tenant) == {decided, paid}
    assert found(tenant, entities=("Alice Morgan",)) == {decided}
    assert found(tenant, actions=("Decide",)) == found(tenant, actions=("decided",)) == {decided}
    assert found(tenant, actions=("pay",), entities=("Alice Morgan",)) == set()


def test_a_name_finds_every_spelling_that_the_graph_knows(tenant: Tenant) -> None:
    full = store(tenant, NewMemory("Alice Morgan owns the billing export.", Source.CLI)).content
    short = store(tenant, NewMemory("Yesterday Alice mended the billing export.", Source.CLI)).content
    store(tenant, NewMemory("Bob Hansen pays for the billing export.", Source.CLI))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert found(tenant, entities=("alice morgan",)) == {full, short}


def test_a_project_is_found_by_its_folder_or_its_last_part_though_a_silo_names_it_by_its_slug(tenant: Tenant) -> None:
    def of(project: str) -> str:
        return store(tenant, NewMemory(f"The billing export of {project} is slow.", Source.CLI, project=project)).content

    def found_in(project: str) -> set[str]:
        return {memory.content for memory in search(tenant, "billing export", narrowed=Narrowing(project=project)).memories}

    named, folder, silo, other = of("atlas"), of("/src/acme/atlas"), of("-home-mira-my-work-atlas"), of("/src/borealis-atlas")
    of("-src-borealis-atlas")
    of("quick-atlas")
    assert found_in("Atlas") == found_in("atlas") == {named, folder, silo}
    assert found_in("/home/mira/my.work/atlas/") == {silo}
    assert found_in("/src/acme/atlas/") == {folder}
    assert found_in("atlas/") == found_in("atlas")
    assert other in found_in("borealis-atlas")
    assert found_in("work") == set()


FORMS = (" {:.6}… ", "#{}", "memory://{}", "(id {})", "id {}", "{}.", "{},")
"""The forms of an id that outputs show."""


def test_an_id_is_known_in_the_forms_that_outputs_show(tenant: Tenant) -> None:
    number = store(tenant, NewMemory("Priya owns it.", Source.CLI)).id
    assert [find_memory(tenant, form.format(str(number))).id for form in FORMS] == [number] * len(FORMS)


def test_each_command_knows_the_forms_that_outputs_show(tenant: Tenant) -> None:
    first, second = (str(store(tenant, NewMemory(text, Source.CLI)).id) for text in ("Priya owns it.", "Mira sails on Sundays."))
    forms = cycle(FORMS)
    for command in (
        ["show", first],
        ["tag", first, "billing"],
        ["conflicts", first],
        ["session", "--off", first],
        ["relate", first, "LEADS_TO", second],
        ["forget", first],
        ["forget", first, "--restore"],
        ["edit", first, "Tomasz owns it."],
        ["undo", first],
        ["supersede", first, second],
        ["erase", first, "--yes"],
        ["erase", "--allow-again", first],
    ):
        shown = [next(forms).format(each) if each in (first, second) else each for each in command]
        done = CliRunner().invoke(cli, shown)
        assert done.exit_code == 0, (shown, done.output, done.exception)


@pytest.mark.parametrize("reference", ["", "#", "12 13", "1.5", "12-13", "-5", "id", "ids 5", "753abc"])
def test_what_is_no_id_is_told(tenant: Tenant, reference: str) -> None:
    store(tenant, NewMemory("Priya owns it.", Source.CLI))
    problem = str(CliRunner().invoke(cli, ["show", "--", reference]).exception)
    assert "is not a memory's id" in problem
    assert "`memory context ID`" in problem
