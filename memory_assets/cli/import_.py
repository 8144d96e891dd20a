"""`memory import`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from memory_assets.cli.options import creating_options
from memory_assets.cli.output import print_json, say
from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_memory
from memory_assets.models import MAX_IMPORTED_LENGTH, Kind, NewMemory, Source, State
from memory_assets.tenants import Tenant

_MOST_SHOWN = 10


def _null_is_absent(value: Any) -> Any:
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_null_is_absent)]


class _Line(BaseModel):
    """One line of an import or export file; what it does not know goes to `metadata`."""

    model_config = ConfigDict(extra="allow")

    content: str = Field(min_length=1)
    id: int | str | None = Field(None, union_mode="left_to_right")
    external_id: _Text = ""
    kind: Kind = Kind.NOTE
    title: _Text = ""
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    source: _Text = ""
    project: _Text = ""
    session: _Text = ""
    author: _Text = ""
    importance: float = Field(0.5, ge=0, le=1)
    confidence: float = Field(1.0, ge=0, le=1)
    protected: bool = False
    state: State = State.ACTIVE
    source_key: _Text = ""
    superseded_by: int | None = None
    links: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    def memory(self) -> NewMemory:
        """As a memory to be; an id that is not an integer becomes its external id."""
        numbered = isinstance(self.id, int)
        if numbered and not 0 < self.id < 1 << 53:  # type: ignore[operator]
            raise InvalidInputError("id: an integer must lie within 1 and 2^53 - 1; give it as a string to keep it as it is")
        created = self.created_at
        if created and created.tzinfo is None:
            created = created.replace(tzinfo=UTC)
        known = self.source in {source.value for source in Source}
        memory = NewMemory(
            content=self.content,
            source=Source(self.source) if known else Source.IMPORT,
            kind=self.kind,
            title=self.title,
            tags=self.tags,
            created_at=created,
            id=self.id if numbered else None,  # type: ignore[arg-type]
            external_id=self.external_id if numbered or self.id is None else str(self.id),
            project=self.project,
            session=self.session,
            author=self.author,
            importance=self.importance,
            confidence=self.confidence,
            protected=self.protected,
            state=self.state,
            source_key=self.source_key,
            superseded_by=self.superseded_by,
            links=self.links,
            metadata=self.metadata | ({} if known or not self.source else {"source": self.source}) | self._leftovers(),
        )
        validate_memory(memory, MAX_IMPORTED_LENGTH)
        return memory

    def _leftovers(self) -> dict[str, Any]:
        derived = {"active", "actions", "entities", "pipeline", "updated_at"}
        return {name: value for name, value in (self.model_extra or {}).items() if name not in derived}


@click.command("import", epilog='Example: memory import memories.jsonl   (lines like {"content": "...", "tags": ["a"]})')
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True))
@click.option("--skip-invalid", is_flag=True, help="Take in the good lines of a file that has bad ones.")
@creating_options
def command(file: Path, skip_invalid: bool, tenant: Tenant, as_json: bool) -> None:
    """Take in memories from a JSON Lines file. An id that is already there is updated, so an import can be run again."""
    from memory_assets.cli.progress import progress_bar
    from memory_assets.ingest.direct import import_memories
    from memory_assets.learn.briefing import renew_brief

    given, faults = _read(file)
    for fault in faults[:_MOST_SHOWN]:
        say(f"memory: {fault}", err=True)
    if faults and not skip_invalid:
        raise InvalidInputError(
            f"{len(faults)} line(s) of {file} cannot be taken in, so nothing was; mend them or add --skip-invalid."
        )
    with progress_bar("Importing", shown=not as_json) as advance:
        outcome = import_memories(tenant, given, advance)
    renew_brief(tenant)
    if as_json:
        print_json({"added": outcome.added, "updated": outcome.updated, "unchanged": outcome.unchanged, "refused": len(faults)})
    else:
        say(f"{outcome.added} added, {outcome.updated} updated, {outcome.unchanged} unchanged, {len(faults)} refused")


def _read(file: Path) -> tuple[list[NewMemory], list[str]]:
    given: list[NewMemory] = []
    faults: list[str] = []
    with click.open_file(str(file), "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                given.append(_Line.model_validate_json(line).memory())
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "the line"
                faults.append(f"{file} line {number}, {where}: {first['msg']}.")
            except InvalidInputError as error:
                faults.append(f"{file} line {number}, {error}.")
    return given, faults
