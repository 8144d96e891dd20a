"""Every setting of the project: paths, URIs, keys, weights and thresholds, typed.

Precedence: command line, environment, the file that `MEMORY_CONFIG` names (default: `memory.toml` in the platform's user
configuration folder), the defaults here. Nothing is read at import; call `load_settings`.
"""

import logging
import os
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import available_timezones

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from memory_assets.errors import SettingsError
from memory_assets.hook_settings import (
    NUDGE_FROM,
    SESSION_START_TOKENS,
    absolute_path,
    config_file,
    default_data_dir,
    read_settings_file,
)
from memory_assets.models import TENANT_PATTERN, SecretPolicy

_log = logging.getLogger(__name__)
_ENVIRONMENT = "the environment"
_known_zones = cache(available_timezones)  # it opens hundreds of files
_PATHS = (
    "data_dir",
    "vectors_uri",
    "catalog_uri",
    "claude_projects_dir",
    "pai_seed",
    "pai_config",
    "pai_mapping",
    "pai_relationships_dir",
    "pai_learning_dir",
    "backup_to",
    "backup_identity",
)
"""Settings that name a file or folder. A relative path in the settings file begins at the file's folder."""
FINISH_SECONDS = 60
"""Time for the service to finish accepted requests after a signal to stop."""
EXIT_SECONDS = 10
"""Time for a process of the service to exit after its last request."""
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]


def _split_names(value: object) -> object:
    """Split a text at its commas; a list from a settings file stays as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _named_by_seeds(name: str, own_name: str = "") -> AliasChoices:
    """Let a setting be called by the name that the seeds use and by the project's own prefix."""
    own_name = own_name or name
    return AliasChoices(f"MEMORY_{own_name}", name, own_name.lower())


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings(BaseSettings):
    """The settings of one process; `memory doctor --settings` prints each with its origin."""

    model_config = SettingsConfigDict(
        env_prefix="MEMORY_", extra="ignore", populate_by_name=True, frozen=True, allow_inf_nan=False
    )

    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Folder of all data, with a folder for each tenant; default: `~/.local/share/memory_assets` (macOS: "
        "`~/Library/Application Support/memory_assets`).",
    )
    tenant: str = Field("main", pattern=TENANT_PATTERN, description="Tenant whose memory a command works on.")
    vectors_uri: str | None = Field(
        None, description="LanceDB root, a folder or s3://bucket/prefix; default: the data folder. Below it: `<tenant>/vectors`."
    )
    catalog_uri: str | None = Field(
        None,
        description="DuckDB root; default: the data folder. Below: `<tenant>/catalog.duckdb`. Or DuckLake on PostgreSQL, with files below "
        "vectors_uri: `ducklake:postgres:host=… dbname=… user=…`; its password is PGPASSWORD's or ~/.pgpass's.",
    )
    state_uri: str | None = Field(
        None,
        pattern="^postgres(ql)?://",
        description="PostgreSQL database of keys, access records, briefs and other state of all tenants, postgresql://user@host/name; "
        "its password is PGPASSWORD's or ~/.pgpass's. Default: files in the data folder.",
    )
    storage_endpoint: str | None = Field(
        None, pattern="^https?://[^/@?]+/?$", description="URL of the S3 service of vectors_uri, if it is not AWS."
    )
    storage_region: str | None = Field(None, description="Region of that service; default: from AWS's variables.")
    storage_access_key: SecretStr | None = Field(None, description="Access key of that service; default: from AWS's variables.")
    storage_secret_key: SecretStr | None = Field(None, description="Secret of that access key.")
    claude_projects_dir: Path = Field(
        Path("~/.claude/projects"), description="Claude Code's project folders; it does not follow CLAUDE_CONFIG_DIR."
    )
    pai_seed: Path = Field(Path("~/.pai/seed.json"), description="pai-seed's file.")
    pai_learning_dir: Path = Field(Path("~/.pai/MEMORY/LEARNING"), description="PAI's LEARNING store.")
    pai_config: Path = Field(Path("~/.pai/config.json"), description="pai-seed's configuration, for `tanaIntegration`.")
    pai_relationships_dir: Path = Field(Path("~/.pai/relationships"), description="pai-seed's relationship files.")
    pai_mapping: Path = Field(Path("~/.config/supertag/pai-mapping.json"), description="File that maps entries to Tana nodes.")
    freshness_days: int = Field(90, ge=1, description="Days without activity after which a learning is stale.")
    source_max_bytes: int | None = Field(None, ge=1, description="Largest source file, in bytes; default: by source.")

    secrets: SecretPolicy = Field(
        SecretPolicy.MASK, description="What to do with keys and passwords in texts: mask, refuse or allow."
    )

    embedder: str = Field("auto", description="auto (bge-small), e5-multilingual, ollama, ollama:MODEL or openai:MODEL")
    openai_url: str | None = Field(None, description="Base URL of an OpenAI-compatible endpoint.")
    openai_api_key: SecretStr | None = Field(
        None, validation_alias=_named_by_seeds("OPENAI_API_KEY"), description="Key of that endpoint."
    )
    ollama_url: str = Field("http://localhost:11434", validation_alias=_named_by_seeds("OLLAMA_URL"), description="Ollama's URL.")
    embedding_timeout: float = Field(
        60.0,
        gt=0,
        validation_alias=_named_by_seeds("EMBEDDING_TIMEOUT"),
        description="Seconds that an embedding call may take; the first call to a model takes long.",
    )
    spacy_model: str = Field("bundled", description="The bundled English pipeline or any installed spaCy pipeline.")
    timezone: str | None = Field(
        None,
        validation_alias=_named_by_seeds("POND_TIMEZONE", "TIMEZONE"),
        description="Time zone in which times are shown and read and schedules run; times are stored in UTC.",
    )
    geoip_url: str | None = Field(None, description="URL of a service that tells this machine's time zone; off unless set.")

    lock_timeout: float = Field(30.0, ge=0, description="Seconds to wait for another process's database lock.")
    decay_rate: float = Field(0.01, ge=0, description="Relevance decays by exp(-rate * days); 0.1 forgets within days.")
    archive_threshold: Fraction = Field(0.2, description="Relevance below which `consolidate forget` archives.")
    delete_threshold: Fraction = Field(0.05, description="Relevance below which `consolidate forget` deletes, if that is on.")
    forget_deletes: bool = Field(False, description="Whether `consolidate forget` deletes memories; it exports them first.")
    forget_grace_days: float = Field(30.0, ge=0, description="Days after a memory's last sign of life in which it is kept.")
    forget_at_most: Fraction = Field(
        0.1, description="Share of active memories that may be archived, and of all that may be deleted, without --yes."
    )
    creative_sample: int = Field(500, ge=0, description="Memories that the creative cycle samples.")
    creative_similarity: Fraction = Field(0.8, description="Similarity that a pair must exceed to be linked.")
    cluster_similarity: Fraction = Field(0.6, description="Least similarity of neighbours in a cluster.")
    chat_model: str | None = Field(
        None,
        pattern=r"^(?:ollama|openai):\S+$",
        description="ollama:NAME or openai:NAME: a chat model that finds further relations; off unless set.",
    )

    weight_vector: Weight = Field(0.35, description="Weight of meaning in a search score; weights are divided by their sum.")
    weight_keyword: Weight = Field(0.05, description="Weight of the full-text rank (BM25) in a search score.")
    weight_relation: Weight = Field(0.35, description="Weight of the graph's support in a search score.")
    weight_content: Weight = Field(0.25, description="Weight of exact words in a search score.")
    weight_temporal: Weight = Field(0.15, description="Weight of the time that the query names in a search score.")
    weight_tag: Weight = Field(0.05, description="Weight of tags that the query names in a search score.")
    weight_importance: Weight = Field(0.05, description="Weight of importance in a search score.")
    weight_recency: Weight = Field(0.05, description="Weight of recency in a search score.")
    weight_answer: Weight = Field(
        0.45,
        description="Weight of how likely the text answers the query in a search score; 0 skips the network that reads both.",
    )

    tana_url: str = Field("http://localhost:8262", description="Tana's Local API.")
    tana_token: SecretStr | None = Field(
        None, description="Its token; default: the one that `keyring set memory_assets tana` keeps."
    )
    tana_timeout: float = Field(15.0, gt=0, description="Seconds that one request to Tana may take.")
    tana_read_seconds: float = Field(600.0, gt=0, description="Seconds after which reading Tana stops; the next run continues.")
    tana_workspace: str = Field("", description="Name or id of the workspace; default: pai-seed's, else the only one.")
    tana_parent: str = Field("", description="Id of the learnings' parent node; default: `PAI memory` in the Library.")
    tana_leaving: Literal["trash", "archive"] = Field(
        "trash", description="trash or archive nodes of entries that left seed.json."
    )
    tana_edits: Literal["restore", "leave"] = Field("restore", description="restore or leave mirrored fields edited in Tana.")
    tana_trash_at_most: Fraction = Field(0.1, description="Share of mirrored entries that `pai sync` removes without --yes.")

    session_start: Literal["on", "off"] = Field("on", description="Whether a session starts with a brief from memory.")
    session_start_tokens: int = Field(SESSION_START_TOKENS, ge=0, description="Longest brief, in tokens.")
    session_summary: Literal["on", "off"] = Field("on", description="Whether a session's end stores a summary as a memory.")
    watch_sources: Literal["on", "off"] = Field("on", description="Whether service and MCP server ingest changed files at once.")
    prompt_recall: Literal["on", "sure", "off"] = Field(
        "on", description="Whether a prompt gets the memories that it needs: on, sure (only clear matches), or off."
    )
    prompt_recall_tokens: int = Field(300, ge=0, description="Most tokens of memories that a prompt gets.")
    nudge_from: int = Field(NUDGE_FROM, ge=1, description="Un-ingested silo memories from which a session's start mentions them.")
    mcp_tools: Literal["daily", "all"] = Field(
        "daily", description="Tools that an assistant gets over MCP: all, or those for daily use; each costs tokens."
    )

    backup_to: str | None = Field(None, description="Folder or s3:// URI of the backups; scheduled ones are off unless set.")
    backup_endpoint: str | None = Field(
        None,
        pattern="^https?://[^/@?]+/?$",
        description="URL of the backups' S3 service, if it is not AWS: http://127.0.0.1:9000.",
    )
    backup_region: str | None = Field(None, description="Region of that service; default: AWS_REGION, else the bucket's region.")
    backup_access_key: SecretStr | None = Field(None, description="Its access key; default: from AWS's variables and files.")
    backup_secret_key: SecretStr | None = Field(None, description="Secret of that access key.")
    backup_every: Literal["daily", "weekly"] = Field("daily", description="How often the daemon takes a backup.")
    backup_keep: Annotated[tuple[int, ...], NoDecode, BeforeValidator(_split_names)] = Field(
        (7, 4, 12), min_length=3, max_length=3, description="Numbers of daily, weekly and monthly backups to keep: 7,4,12."
    )
    backup_recipient: str | None = Field(None, pattern="^age1", description="age public key that encrypts backups.")
    backup_identity: Path | None = Field(None, description="File of the age identity that decrypts backups.")

    host: str = Field("127.0.0.1", description="Address that `memory serve` listens on; any other than loopback needs keys.")
    port: int = Field(
        8000, ge=0, le=65_535, validation_alias=_named_by_seeds("PORT"), description="Port of that address; 0: any free one."
    )
    workers: int = Field(
        default_factory=count_processors, ge=1, le=64, description="Processes of `memory serve`; default: one for each processor."
    )
    service_threads: int = Field(
        2, ge=1, le=64, description="Concurrent searches per process; more help only with a remote embedder."
    )
    resident_bytes: int = Field(
        512 << 20,
        ge=0,
        description="RAM in bytes for memories that `memory serve` searches without the disk, some 2 kB each; 0 uses none.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_names)] = Field(
        (), description="Host names, separated by commas, under which clients may call the service besides its own address."
    )
    max_connections: int = Field(256, ge=2, description="Concurrent connections or requests from which the service answers 503.")
    request_timeout: float = Field(
        20.0, gt=0, description="Seconds in which a request's body must arrive, and one more for each kB."
    )
    max_body_bytes: int = Field(262_144, ge=1_024, description="Largest request body that the service reads, in bytes.")
    rate_limit: int = Field(0, ge=0, description="Requests a minute allowed for each key; 0: no limit.")
    metrics_token: SecretStr | None = Field(None, description="Bearer token for /metrics; without one only loopback may read it.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", validation_alias=_named_by_seeds("LOG_LEVEL"), description="How much the service logs."
    )
    log_format: Literal["json", "pretty"] = Field(
        "json", validation_alias=_named_by_seeds("LOG_FORMAT"), description="How the service's log lines look."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments and the environment only: looking for dotenv and secret files would double the time."""
        return init_settings, env_settings

    @field_validator("data_dir", mode="before")
    @classmethod
    def _refuse_empty(cls, path: object) -> object:
        if path == "":
            raise ValueError("is empty; name a folder, or leave it unset")
        return path

    @field_validator("data_dir", "vectors_uri", "catalog_uri")
    @classmethod
    def _check_folder(cls, folder: Path | str | None) -> Path | str | None:
        path = Path(folder or "")
        if not path.is_absolute():
            return folder
        existing = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if not existing.is_dir():
            below = f"lies below {existing}, which is no folder; name another"
            raise ValueError("is no folder; name one" if existing == path else below)
        return folder

    @field_validator(*_PATHS, mode="before")
    @classmethod
    def _expand_path(cls, path: object) -> object:
        if not isinstance(path, str | Path):
            return path
        if (expanded := absolute_path(str(path))).startswith("~"):
            raise ValueError("names the home of a user who does not exist; write the whole path")
        return expanded

    @field_validator("data_dir")
    @classmethod
    def _check_characters(cls, path: Path) -> Path:
        if found := re.search(r"[\x00-\x1f\x7f?]", str(path)):
            raise ValueError(f"is in a path with {found[0]!r}, which DuckDB or LanceDB cannot open; name another folder")
        return path

    @field_validator("state_uri", "vectors_uri", "catalog_uri")
    @classmethod
    def _refuse_credentials(cls, uri: str | None) -> str | None:
        if uri and re.match("s3://[^/]*@", uri):
            raise ValueError("holds credentials; set MEMORY_STORAGE_ACCESS_KEY and MEMORY_STORAGE_SECRET_KEY instead")
        if uri and re.search(r"password\s*=|://.*:.*@", uri):
            raise ValueError("holds a password; set PGPASSWORD instead")
        return uri

    @field_validator("timezone")
    @classmethod
    def _check_zone(cls, name: str | None) -> str | None:
        if name is not None and name not in _known_zones():
            raise ValueError("is not a known time zone; use a name such as Europe/Berlin")
        return name

    def tenant_dir(self, tenant: str | None = None) -> Path:
        """Return the folder of one tenant's local files."""
        return self.data_dir / (tenant or self.tenant)

    def tenant_vectors_uri(self, tenant: str) -> str:
        """Return the URI of one tenant's LanceDB database."""
        return f"{(self.vectors_uri or str(self.data_dir)).rstrip('/')}/{tenant}/vectors"

    def storage_options(self) -> dict[str, str]:
        """Return LanceDB's options for the S3 service of `vectors_uri`, without those that AWS's own variables give."""
        endpoint = self.storage_endpoint or ""
        options = {
            "aws_endpoint": endpoint.rstrip("/"),
            "aws_region": self.storage_region or ("us-east-1" if endpoint else ""),
            "aws_access_key_id": self.storage_access_key.get_secret_value() if self.storage_access_key else "",
            "aws_secret_access_key": self.storage_secret_key.get_secret_value() if self.storage_secret_key else "",
            "allow_http": "true" if endpoint.startswith("http://") else "",
            # LanceDB then keeps the newest version's number in an object and lists nothing. On Amazon's S3 listing is as fast.
            "use_opendal": "true" if endpoint else "",
            "s3_express": "true" if endpoint else "",
        }
        return {name: value for name, value in options.items() if value}

    def tenant_catalog_uri(self, tenant: str) -> str:
        """Return the URI of one tenant's DuckDB catalog."""
        if self.catalog_uri and self.catalog_uri.startswith("ducklake:"):
            return self.catalog_uri
        return f"{(self.catalog_uri or str(self.data_dir)).rstrip('/')}/{tenant}/catalog.duckdb"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; `overrides`, by field name, win over every other source unless None.

    An unknown name in the settings file is logged once in a process.

    Raises:
        SettingsError: A value is invalid, or the settings file is not TOML or cannot be read.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    in_file: dict[str, InFile] = {}
    try:
        content = read_settings_file()
        in_file = settings_in_file(content)
        beside = {name: each.value for name, each in in_file.items() if _find_origin(name, in_file)[1] != _ENVIRONMENT}
        paths = {name: beside[name] for name in _PATHS if isinstance(beside.get(name), str)}
        beside |= {name: absolute_path(path, config_file().parent) for name, path in paths.items()}
        settings = Settings(**(beside | given))
        for sentence in unknown_names(content):
            _warn_once(sentence)
        return settings
    except FileNotFoundError as error:
        raise SettingsError("The working directory is gone, and a setting names a path in it; go to another folder.") from error
    except ValidationError as error:
        first = error.errors()[0]
        located = str(first["loc"][0])
        field = next(name for name in Settings.model_fields if located in (name, *variable_names(name)))
        shown, place = _find_origin(field, in_file)
        option = f"--{field.replace('_', '-')}"
        shown, where = (option, "on the command line") if field in given else (shown, f"in {place or _ENVIRONMENT}")
        secret = "SecretStr" in str(Settings.model_fields[field].annotation) or re.search("@|password", str(first["input"]))
        value = "" if secret else f" (given: {first['input']!r})"
        raise SettingsError(
            f"The setting {shown} cannot be used: {first['msg'].removeprefix('Value error, ')}{value}; correct it {where}."
        ) from (None if secret else error)


class InFile(NamedTuple):
    """A setting in the settings file."""

    name: str
    """Name as the file spells it: an environment variable's, or the field's."""
    value: Any


class Origin(NamedTuple):
    """Where a setting came from."""

    name: str
    """The name under which it is set or can be set."""
    place: str
    """`the environment`, the settings file, `command line` or `default`."""


@cache
def _warn_once(sentence: str) -> None:
    _log.warning("memory: %s", sentence)


def origins(settings: Settings) -> dict[str, Origin]:
    """Return the origin of each setting, by field."""
    in_file = settings_in_file(read_settings_file())
    found: dict[str, Origin] = {}
    for name in type(settings).model_fields:
        shown, place = _find_origin(name, in_file)
        unset = "default" if name not in settings.model_fields_set else "command line"
        found[name] = Origin(shown, place or unset)
    return found


def _find_origin(field: str, in_file: dict[str, InFile]) -> tuple[str, str]:
    """Return the name under which a field is set and where: the environment, the settings file, or empty if in neither."""
    environment = {variable.upper(): variable for variable in os.environ}
    variables = variable_names(field)
    for variable in variables:
        if variable in environment:
            return environment[variable], _ENVIRONMENT
    if field in in_file:
        return in_file[field].name, str(config_file())
    return variables[0], ""


def variable_names(field: str) -> list[str]:
    """Return the environment variables that set a field, by precedence."""
    alias = Settings.model_fields[field].validation_alias
    names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [f"MEMORY_{field.upper()}"]
    return [name for name in names if name.isupper()]


def settings_in_file(content: dict[str, Any]) -> dict[str, InFile]:
    """Return the settings in a file's content, by field. If it sets a field twice, the environment variable's name wins."""
    given = {name.lower(): InFile(name, value) for name, value in content.items()}
    found: dict[str, InFile] = {}
    for name, field in _fields_by_name().items():
        if name in given:
            found.setdefault(field, given[name])
    return found


def unknown_names(content: dict[str, Any]) -> list[str]:
    """Return a sentence for each unknown name in a settings file: the fault, a semicolon, the mend."""
    known = _fields_by_name()
    sentences: list[str] = []
    for name in [name for name in content if name.lower() not in known]:
        near = get_close_matches(name.lower(), known, n=1)
        meant = near[0].upper() if near and name.isupper() else "".join(near)
        mend = f"write {meant}, or remove it." if meant else "remove it; `memory doctor --settings` lists the names."
        sentences.append(f"The name {name!r} in {config_file()} is no setting, so it is ignored; {mend}")
    return sentences


@cache
def _fields_by_name() -> dict[str, str]:
    """Return the field of each name that a settings file may use, in lower case; names of a field are in order of precedence."""
    return {name.lower(): field for field in Settings.model_fields for name in (*variable_names(field), field)}
