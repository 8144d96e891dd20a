"""`memory consolidate`: the sleep cycles, now."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
from memory_assets.tenants import Tenant

_SHOWN = 20


@click.group("consolidate", epilog="Example: memory consolidate forget --dry-run")
def command() -> None:
    """Run a sleep cycle now: decay, creative, cluster or forget. With --dry-run it only says what it would do."""


def _dry_run(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")(function)


@command.command("decay", epilog="Example: memory consolidate decay --dry-run")
@_dry_run
@common_options
def decay(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Daily: every memory's relevance as of now; archived memories that matter again come back."""
    from memory_assets.graph.sleep import decay_cycle
    from memory_assets.tana.freshness import store_activity

    _refresh_graph(tenant, dry_run=dry_run)
    if not dry_run:
        store_activity(tenant)
    outcome = decay_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    if as_json:
        fields = ("scored", "below_archive", "histogram", "written", "woken")
        print_json({"dry_run": dry_run} | {name: getattr(outcome, name) for name in fields})
        return
    would = "would change" if dry_run else "changed"
    say(f"{outcome.scored} memories scored, {outcome.written} scores {would}, {len(outcome.woken)} back from the archive")
    say(f"{outcome.below_archive} lie below the archive threshold of {tenant.settings.archive_threshold:g}")
    for low, count in enumerate(outcome.histogram):
        say(f"  {low / 10:.1f} to {(low + 1) / 10:.1f}  {count:>6}  {'█' * round(40 * count / max(1, outcome.scored))}")


@command.command("creative", epilog="Example: memory consolidate creative --dry-run")
@_dry_run
@common_options
def creative(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Weekly: edges between memories that are alike and were never connected."""
    from memory_assets.graph.sleep import creative_cycle

    outcome = creative_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    if as_json:
        fields = ("week", "sampled", "compared", "links")
        print_json({"dry_run": dry_run} | {name: getattr(outcome, name) for name in fields})
        return
    verb = "would be connected" if dry_run else "connected"
    say(f"{outcome.week}: {outcome.sampled} memories drawn, {outcome.compared} close neighbours, {len(outcome.links)} {verb}")
    for link in outcome.links[:_SHOWN]:
        say(f"  {link['similarity']:.2f}  {link['source_label']}  {link['type']}  {link['target_label']}")
    _more(len(outcome.links))


@command.command("cluster", epilog="Example: memory consolidate cluster --json")
@_dry_run
@common_options
def cluster(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Monthly: dense groups of memories become patterns with a summary."""
    from memory_assets.graph.sleep import cluster_cycle

    outcome = cluster_cycle(tenant, datetime.now(UTC), dry_run=dry_run)
    if as_json:
        found = [
            {"id": c.id, "label": c.label, "summary": c.summary, "members": c.members, "cohesion": c.cohesion}
            for c in outcome.clusters
        ]
        fields = ("memories", "kept", "founded", "dissolved", "written")
        print_json({"dry_run": dry_run} | {name: getattr(outcome, name) for name in fields} | {"clusters": found})
        return
    say(
        f"{len(outcome.clusters)} clusters among {outcome.memories} memories: {outcome.kept} kept, {outcome.founded} new, "
        f"{outcome.dissolved} dissolved{' (nothing written)' if dry_run else ''}"
    )
    for found in outcome.clusters[:_SHOWN]:
        say(f"\n{found.label}  {len(found.members)} members · {found.id}", bold=True)
        say(f"  {found.summary}")
    _more(len(outcome.clusters))


@command.command("forget", epilog="Example: memory consolidate forget --dry-run")
@_dry_run
@click.option("--yes", is_flag=True, help="Even where that is more than MEMORY_FORGET_AT_MOST (a tenth) of the active memories.")
@common_options
@click.pass_context
def forget(context: click.Context, dry_run: bool, yes: bool, tenant: Tenant, as_json: bool) -> None:
    """Quarterly: archive what no longer matters; delete only if MEMORY_FORGET_DELETES is on."""
    from memory_assets.graph.sleep import forget_cycle
    from memory_assets.learn.briefing import renew_brief

    _refresh_graph(tenant, dry_run=dry_run)
    outcome = forget_cycle(tenant, datetime.now(UTC), dry_run=dry_run, however_many=yes)
    not_done = dry_run or outcome.held_back
    if not not_done:
        renew_brief(tenant)
    if as_json:
        listed = {
            name: [{"id": memory.id, "title": memory.title, "relevance": relevance} for memory, relevance in found]
            for name, found in (("archived", outcome.archived), ("deleted", outcome.deleted))
        }
        counts = {"dry_run": dry_run, "held_back": outcome.held_back, "scored": outcome.scored, "active": outcome.active}
        print_json(counts | listed | {"file": outcome.file and str(outcome.file)})
        context.exit(1 if outcome.held_back and not dry_run else 0)
    would = "would be " if not_done else ""
    say(f"{outcome.scored} memories scored, {len(outcome.archived)} {would}archived, {len(outcome.deleted)} {would}deleted")
    for memory, relevance in [*outcome.deleted, *outcome.archived][:_SHOWN]:
        say(f"  {relevance:.3f}  {memory.id}  {memory.created_at:%Y-%m-%d}  {memory.title or memory.content[:60]}")
    _more(len(outcome.archived) + len(outcome.deleted))
    if outcome.file:
        say(f"What was deleted is kept in {outcome.file}; `memory import` takes it back.")
    elif outcome.held_back:
        say(
            f"memory: that is more than {tenant.settings.forget_at_most:.0%} of the {outcome.active} active memories, so nothing "
            f"{'would be' if dry_run else 'was'} done; look at them, then add --yes.",
            err=True,
        )
        context.exit(0 if dry_run else 1)
    elif outcome.archived and not not_done:
        say("`memory forget ID --restore` brings one back, `memory search --archived` finds them.")


def _refresh_graph(tenant: Tenant, *, dry_run: bool) -> None:
    """What was stored since the last run must not look unconnected."""
    from memory_assets.graph.edges import refresh_graph

    if not dry_run:
        refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)


def _more(total: int) -> None:
    if total > _SHOWN:
        say(f"  and {total - _SHOWN} more; --json lists all")
