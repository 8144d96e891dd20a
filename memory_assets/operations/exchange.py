"""Write memories as JSON Lines, and take in what `memory export` or another program wrote so."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import validate_memory
from memory_assets.models import MAX_IMPORTED_LENGTH, Kind, NewMemory, RelationType, SecretPolicy, Source, State
from memory_assets.operations.answers import Answer, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Exported(Answer):
    """A file that was written."""

    file: Path
    memories: int

    def text(self, local: LocalTime) -> str:
        return f"{counted(self.memories)} written to {self.file}"


def export(tenant: "Tenant", file: Path) -> Exported:
    """Write all memories to `file`, one a line, as the store holds them and not by time, a batch in memory at once.

    Raises:
        StoreError: the memories cannot be read; the old file stays.
        OSError: the file cannot be written; the old one stays.
    """
    from memory_assets.stores.files import writing

    written = 0
    with writing(file) as lines:
        for text in exported_lines(tenant):
            lines.write(text.encode())
            written += text.count("\n")
    return Exported(file=file.absolute(), memories=written)


def exported_lines(tenant: "Tenant") -> Iterator[str]:
    """All memories as JSON Lines, a batch at a time.

    Raises:
        StoreError: the memories cannot be read; the lines given before are whole.
    """
    from memory_assets.stores.rows import to_jsonl

    relations: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in tenant.relations.scan().sort_by([("target_id", "ascending"), ("type", "ascending")]).to_pylist():
        relations[row.pop("source_id")].append({name: value for name, value in row.items() if name != "id"})
    for memories in tenant.memories.batches():
        yield to_jsonl(memories, relations)


class Imported(Answer):
    """How many lines were taken in."""

    added: int
    updated: int
    unchanged: int
    refused: int
    erased: int = 0
    """Left out, because their texts were erased."""

    def text(self, local: LocalTime) -> str:
        left_out = f", {self.erased} left out (erased before)" if self.erased else ""
        return f"{self.added} added, {self.updated} updated, {self.unchanged} unchanged, {self.refused} refused{left_out}"


_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Relation(BaseModel):
    """A relation that was stated from the memory of a line."""

    target_id: int
    type: RelationType
    confidence: float = Field(1.0, ge=0, le=1)
    note: _Text = ""
    stated_by: str = Source.IMPORT.value
    created_at: AwareDatetime | None = None


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
    relations: tuple[_Relation, ...] = ()

    def memory(self) -> NewMemory:
        """As a memory to be; an id that is not an integer becomes its external id."""
        numbered = isinstance(self.id, int)
        if numbered and not 0 < self.id < 1 << 53:  # type: ignore[operator]
            raise InvalidInputError("id: an integer must lie within 1 and 2^53 - 1; give it as a string to keep it as it is")
        created = self.created_at
        if created and created.tzinfo is None:
            created = created.replace(tzinfo=UTC)
        known = self.source in {source.value for source in Source}
        read = {name: getattr(self, name) for name in type(self).model_fields if name != "relations"} | {
            "source": Source(self.source) if known else Source.IMPORT,
            "created_at": created,
            "id": self.id if numbered else None,
            "external_id": self.external_id if numbered or self.id is None else str(self.id),
            "metadata": self.metadata | ({} if known or not self.source else {"source": self.source}) | self._leftovers(),
        }
        memory = NewMemory(**read)
        validate_memory(memory, MAX_IMPORTED_LENGTH)
        return memory

    def _leftovers(self) -> dict[str, Any]:
        derived = {"active", "actions", "entities", "pipeline", "updated_at"}
        return {name: value for name, value in (self.model_extra or {}).items() if name not in derived}


def import_lines(
    tenant: "Tenant",
    name: str,
    lines: Iterable[bytes],
    *,
    skip_invalid: bool,
    on_fault: Callable[[str], None],
    on_progress: Callable[[int, int], None],
) -> Imported:
    """Take in the memories of a JSON Lines file. An id that is already there is updated, so an import can be run again.

    `skip_invalid` takes in the good lines of a file that has bad ones. `on_fault` gets a sentence for each bad line before anything is
    taken in, `on_progress` (done, total) while memories are stored.

    Raises:
        ProcessingError: a step failed; finished commits stay.
        StoreError: a commit failed; finished commits stay.
    """
    from memory_assets.ingest.direct import import_memories
    from memory_assets.language.secrets import mask
    from memory_assets.learn.briefing import renew_brief
    from memory_assets.stores.tombstones import Tombstones

    given: list[NewMemory] = []
    stated: dict[int, tuple[_Relation, ...]] = {}
    exported: set[int | None] = set()
    refused = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = _Line.model_validate_json(line)
            given.append(memory := read.memory())
            if read.relations and memory.id is not None:
                stated[memory.id] = read.relations
            if "pipeline" in (read.model_extra or {}):
                exported.add(memory.id)
        except (ValidationError, InvalidInputError) as error:
            refused += 1
            on_fault(f"{name} line {number}, {_fault(error)}.")
    if refused and not skip_invalid:
        raise InvalidInputError(
            f"{refused} line(s) of {name} cannot be taken in, so nothing was; mend them or add --skip-invalid."
        )
    tombstones = Tombstones(tenant.folder)
    wanted = [memory for memory in given if not tombstones.find(memory.content, mask(memory.content))]
    outcome = import_memories(tenant, wanted, on_progress, exported)
    _import_relations(tenant, stated)
    renew_brief(tenant)
    return Imported(
        added=outcome.added,
        updated=outcome.updated,
        unchanged=outcome.unchanged,
        refused=refused,
        erased=len(given) - len(wanted),
    )


def _import_relations(tenant: "Tenant", stated: Mapping[int, Sequence[_Relation]]) -> None:
    """Record the relations of lines between memories that are there; one that is there already stays as it is."""
    from memory_assets.language.secrets import mask
    from memory_assets.stores.relations import StatedRelation

    if not stated:
        return
    there = set(tenant.memories.scan(("id",))["id"].to_pylist())
    now, is_open = datetime.now(UTC), tenant.settings.secrets is SecretPolicy.ALLOW
    tenant.relations.insert(
        {
            StatedRelation(
                source, each.target_id, each.type, each.confidence, each.note if is_open else mask(each.note), each.stated_by
            ): each.created_at or now
            for source, relations in stated.items()
            for each in relations
            if {source, each.target_id} <= there and source != each.target_id
        }
    )


def _fault(error: ValidationError | InvalidInputError) -> str:
    if isinstance(error, InvalidInputError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
