"""Measure how many of the facts that a task needs fit a token budget: `memory context` against search's top hits at the same budget.

    python benchmarks/context_quality.py [--worlds 4] [--projects 8] [--home DIR] [--json]

Each world is invented: the memory of a team (`context_teams.py`), a household (`context_households.py`) or a laboratory
(`context_laboratories.py`), with much small talk and facts that change. A task names an undertaking and the work to do in its own words,
and needs two to five facts, of which only the newest version counts. A text contains a fact if it contains the words that state it.

`hits` is the full texts of search's hits, one below the other with nothing around them, the last cut to the budget; `printed` is the
output of `memory search`, cut to the budget. tiktoken counts the tokens of each whole text. `stale` is the share of outdated facts
among those that the text states.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from context_households import Household
from context_laboratories import Laboratory
from context_teams import Task, Team

from memory_assets.graph.edges import refresh_graph
from memory_assets.ingest.direct import import_memories
from memory_assets.language.tokens import count_tokens, truncate_tokens
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.context import context
from memory_assets.operations.search import search
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

BUDGETS = (500, 1_000, 2_000, 4_000)
HITS = 60
KINDS = {"team": Team, "household": Household, "laboratory": Laboratory}
Teller = Callable[[Tenant, Task, int], str]


def hits(tenant: Tenant, task: Task, budget: int) -> str:
    found = search(tenant, task.topic, limit=HITS)
    return truncate_tokens("\n\n".join(memory.content for memory in found.memories), budget)


def printed(tenant: Tenant, task: Task, budget: int) -> str:
    found = search(tenant, task.topic, limit=HITS)
    return truncate_tokens(found.text(LocalTime.of(tenant.settings, "UTC")), budget)


def assembled(tenant: Tenant, task: Task, budget: int) -> str:
    return context(tenant, [task.topic], max_tokens=budget, offline=True).document


def with_lens(tenant: Tenant, task: Task, budget: int) -> str:
    return context(tenant, [task.topic], max_tokens=budget, lens=task.lens, offline=True).document


TELLERS: dict[str, Teller] = {"hits": hits, "printed": printed, "context": assembled, "context with the task's lens": with_lens}


def told(text: str) -> str:
    """Return a text on one line, without quotation marks."""
    return " ".join(text.replace("\n>", " ").split())


def measure(tenants: list[tuple[Tenant, Team | Household | Laboratory]]) -> dict[str, dict[int, dict[str, float]]]:
    result: dict[str, dict[int, dict[str, float]]] = {}
    for name, teller in TELLERS.items():
        for budget in BUDGETS:
            there = needed = stale = stated = 0
            for tenant, world in tenants:
                for task in world.tasks:
                    text = teller(tenant, task, budget)
                    assert count_tokens(text) <= budget, (name, task.topic, budget)
                    text = told(text)
                    needed += len(task.facts)
                    there += sum(fact.holds in text for fact in task.facts)
                    old = sum(words in text for fact in task.facts for words in fact.stale)
                    stale += old
                    stated += old + sum(fact.holds in text for fact in task.facts)
            result.setdefault(name, {})[budget] = {"facts": there / needed, "stale": stale / max(1, stated)}
            print(f"{name} {budget}: {there / needed:.3f}", file=sys.stderr)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="number of the first world; others than 0 to 3 were never tuned for")
    parser.add_argument("--kind", choices=KINDS, default="team")
    parser.add_argument("--projects", type=int, default=8)
    parser.add_argument("--home", type=Path, help="keep the stores here and reuse them (default: a temporary folder)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    home = given.home or Path(tempfile.mkdtemp())
    os.environ["MEMORY_CONFIG"] = os.devnull
    settings = load_settings(data_dir=home)
    tenants = []
    for number in range(given.first, given.first + given.worlds):
        world = KINDS[given.kind](number, given.projects)
        tenant = Tenant(settings, f"{given.kind}-{number}")
        if not tenant.exists:
            import_memories(tenant, world.memories, lambda _done, _total: None)
            refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
        tenants.append((tenant, world))
    result = measure(tenants)
    if not given.home:
        shutil.rmtree(home)
    if given.json:
        print(json.dumps(result))
        return
    print("| facts inside (stale) | " + " | ".join(f"{budget:,}" for budget in BUDGETS) + " |\n|---|" + "---|" * len(BUDGETS))
    for name, row in result.items():
        print(f"| {name} | " + " | ".join(f"{100 * row[b]['facts']:.1f} ({100 * row[b]['stale']:.1f})" for b in BUDGETS) + " |")


if __name__ == "__main__":
    main()
