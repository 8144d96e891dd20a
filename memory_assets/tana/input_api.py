"""Tana's cloud Input API, for users without the desktop app: it creates, and neither reads, changes nor deletes.

So new entries go, once each; what was created is in the mapping, and the next sync through the Local API takes it on. A creation whose
answer was lost is not repeated, since nobody can look whether it was made. Limits: one call a second, 100 nodes and 5,000 characters.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memory_assets.http import Service
from memory_assets.tana.config import integration
from memory_assets.tana.entries import Entry, read_seed
from memory_assets.tana.errors import TanaAwayError, TanaError, TanaRefusedError, TanaTokenError, TanaUncertainError
from memory_assets.tana.ledger import Ledger, Sent
from memory_assets.tana.mapping import Mapping
from memory_assets.tana.report import Outcome, Report
from memory_assets.tana.schema import FIELDS, LEARNING, PROPOSAL
from memory_assets.tana.sync import one_at_a_time

if TYPE_CHECKING:
    import httpx

    from memory_assets.settings import Settings
    from memory_assets.tenants import Tenant

MOST_NODES = 100
MOST_CHARACTERS = 5_000
PAUSE_S = 1.05
_TAG_DEFINITION, _FIELD_DEFINITION = "SYS_T01", "SYS_T02"
_INTENT = "input"


class InputClient:
    """Creates nodes through the Input API, no faster than it allows."""

    def __init__(self, service: Service, path: str, *, wait: Callable[[float], None] = time.sleep) -> None:
        """Ask at `path` of `service`; `wait` sleeps between calls."""
        self._service = service
        self._path = path
        self._wait = wait
        self._asked_at = 0.0

    @classmethod
    def open(cls, settings: "Settings") -> "InputClient":
        """The endpoint of the settings; nothing is asked yet.

        Raises:
            TanaTokenError: MEMORY_TANA_INPUT_TOKEN is not set.
        """
        if not settings.tana_input_token:
            raise TanaTokenError(
                "There is no token for Tana's Input API: make one in Tana's settings, and set MEMORY_TANA_INPUT_TOKEN."
            )
        token = settings.tana_input_token.get_secret_value().strip()
        if not (token.isascii() and token.isprintable()):
            raise TanaTokenError("What is set as MEMORY_TANA_INPUT_TOKEN cannot be one; set it anew.")
        base, _, path = settings.tana_input_url.rpartition("/")
        return cls(Service(base, timeout=settings.tana_timeout, headers={"Authorization": f"Bearer {token}"}), path)

    def create(self, nodes: Sequence[dict[str, Any]], target: str) -> list[str]:
        """Create nodes below `target` (`SCHEMA`, `INBOX` or an id); their ids in the same order.

        Raises:
            TanaAwayError: there is no connection; nothing was made. TanaUncertainError: the answer was lost.
            TanaRefusedError: Tana does not accept them, or answers with others. TanaTokenError: it does not accept the token.
        """
        self._wait(max(0.0, self._asked_at + PAUSE_S - time.monotonic()))
        response = self._sent({"targetNodeId": target, "nodes": list(nodes)})
        if response.status_code == 429:
            self._wait(PAUSE_S)
            response = self._sent({"targetNodeId": target, "nodes": list(nodes)})
        if response.status_code in {401, 403}:
            raise TanaTokenError(
                f"Tana's Input API does not accept the token ({response.status_code}); set MEMORY_TANA_INPUT_TOKEN anew."
            )
        if response.is_server_error:
            raise TanaUncertainError(f"Tana's Input API failed ({response.status_code}) while it created something.")
        if not response.is_success:
            raise TanaRefusedError(f"Tana's Input API refuses ({response.status_code}): {' '.join(response.text.split())[:200]}")
        made = [child.get("nodeId") for child in response.json().get("children", ())]
        if len(made) != len(nodes) or not all(made):
            raise TanaUncertainError(f"Tana's Input API names {len(made)} nodes of {len(nodes)} that were sent.")
        return made

    def _sent(self, body: dict[str, Any]) -> "httpx.Response":
        import httpx

        try:
            return self._service.send("POST", self._path, json=body)
        except httpx.ConnectError:
            raise TanaAwayError(f"Tana's Input API does not answer at {self._service.shown_url}.") from None
        except (TimeoutError, httpx.TransportError):
            raise TanaUncertainError("Tana's Input API broke off while it created something.") from None
        finally:
            self._asked_at = time.monotonic()


def create_only(tenant: "Tenant", client: InputClient | None = None, *, dry_run: bool = False) -> Report:
    """Create what is in seed.json and not in the mapping; nothing is updated, linked or trashed.

    Raises:
        InvalidInputError: seed.json cannot be read as a whole.
        StoreError: mapping or ledger cannot be used.
        TanaError: the Input API refuses the supertags.
    """
    if dry_run:
        return _Creation(tenant).report
    with one_at_a_time(tenant):
        creation = _Creation(tenant)
        if creation.new:
            creation.carry_out(client or InputClient.open(tenant.settings))
        return creation.report


class _Creation:
    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant
        self._ledger = Ledger(tenant.folder)
        self._mapping = Mapping.load(tenant.settings.pai_mapping)
        entries = read_seed(tenant.settings.pai_seed, tenant.settings.secrets).entries
        lost = self._ledger.intents(_INTENT)
        self.new = [entry for key, entry in entries.items() if key not in self._mapping.nodes and key not in lost]
        outcomes = [Outcome(entry.seed_id, "create") for entry in self.new]
        outcomes += [Outcome(key, "skipped", node) for key, node in self._mapping.nodes.items() if key in entries]
        outcomes += [Outcome(key, "failed", error=_LOST) for key in lost if key in entries]
        self.report = Report(len(entries), outcomes, last_sync=self._mapping.last_sync)

    def carry_out(self, client: InputClient) -> None:
        outcomes = {outcome.seed_id: outcome for outcome in self.report.outcomes}
        fields = self._definitions(client)
        for batch in _batches([(entry, _node(entry, fields)) for entry in self.new]):
            self._ledger.intend(*((_INTENT, entry.seed_id, {}) for entry, _ in batch))
            try:
                made = client.create([node for _, node in batch], self._tenant.settings.tana_parent or "INBOX")
            except TanaUncertainError as error:
                for entry, _ in batch:
                    outcomes[entry.seed_id].action, outcomes[entry.seed_id].error = "failed", f"{error} {_LOST}"
                continue
            except TanaError as error:
                for entry, _ in batch:
                    self._ledger.done(_INTENT, entry.seed_id)
                    outcomes[entry.seed_id].action, outcomes[entry.seed_id].error = "failed", str(error)
                continue
            for (entry, _), node in zip(batch, made, strict=True):
                self._mapping.nodes[entry.seed_id] = node
                outcomes[entry.seed_id].action, outcomes[entry.seed_id].node = "created", node
            said = integration(self._tenant.settings).workspace
            self._mapping.workspace = self._mapping.workspace or self._tenant.settings.tana_workspace or said
            self._mapping.save()
            for (entry, _), node in zip(batch, made, strict=True):
                self._ledger.record(entry.seed_id, Sent(node, entry.tag, ""))
                self._ledger.done(_INTENT, entry.seed_id)

    def _definitions(self, client: InputClient) -> dict[str, dict[str, str]]:
        """Ids of the supertags (as field "") and of their fields, made once."""
        known: dict[str, dict[str, str]] = json.loads(self._ledger.fact("input definitions") or "{}")
        for tag in (LEARNING, PROPOSAL):
            if tag in known or not any(entry.tag == tag for entry in self.new):
                continue
            specs = [spec for spec in FIELDS[tag] if spec.type != "instance"]
            (tag_id,) = client.create([{"name": tag, "supertags": [{"id": _TAG_DEFINITION}]}], "SCHEMA")
            made = client.create([{"name": spec.name, "supertags": [{"id": _FIELD_DEFINITION}]} for spec in specs], "SCHEMA")
            known[tag] = {"": tag_id, **{spec.name: field for spec, field in zip(specs, made, strict=True)}}
            self._ledger.keep(**{"input definitions": json.dumps(known)})
        return known


_LOST = "It is not created again, because nobody can look whether it was made; a sync through the Local API finds out."


def _node(entry: Entry, definitions: dict[str, dict[str, str]]) -> dict[str, Any]:
    fields = definitions[entry.tag]
    dates = {spec.name for spec in FIELDS[entry.tag] if spec.type == "date"}
    return {
        "name": entry.name,
        "supertags": [{"id": fields[""]}],
        "children": [
            {
                "type": "field",
                "attributeId": fields[name],
                "children": [{"dataType": "date", "name": value} if name in dates else {"name": value}],
            }
            for name, value in entry.fields.items()
            if value and name in fields
        ],
    }


def _batches(nodes: Sequence[tuple[Entry, dict[str, Any]]]) -> Iterator[list[tuple[Entry, dict[str, Any]]]]:
    """As many together as a call may hold: a node of an entry counts with all below it."""
    batch: list[tuple[Entry, dict[str, Any]]] = []
    count = length = 0
    for entry, node in nodes:
        own, below = len(json.dumps(node)) + 2, 1 + 2 * len(node["children"])
        if batch and (count + below > MOST_NODES or length + own > MOST_CHARACTERS - 100):
            yield batch
            batch, count, length = [], 0, 0
        batch.append((entry, node))
        count, length = count + below, length + own
    if batch:
        yield batch
