"""Entities that their spelling gives away: addresses, paths, environment variables, @mentions, #tags."""

import re
from collections.abc import Iterator

from memory_assets.language.entity_types import EntityType, Mention

_EXTENSIONS = """
    py pyi ipynb js mjs cjs jsx ts tsx vue svelte json jsonl ndjson json5 yaml yml toml ini cfg conf lock
    md mdx rst txt log csv tsv parquet arrow feather avro orc html htm css scss xml xsl svg png jpg jpeg
    gif webp ico pdf docx xlsx pptx sh bash zsh fish ps1 bat cmd rs go rb java kt kts scala c h cc cpp hpp
    cs swift php pl lua jl ex exs erl hs clj cljs dart zig nim sql db sqlite sqlite3 duckdb lance proto
    graphql gql tf tfvars hcl nix mk cmake gradle whl zip tar gz tgz bz2 xz zst 7z dll exe bin wasm pem
    crt plist spacy onnx pt pkl npy npz safetensors gguf patch diff bak tmp j2 tmpl
    """.split()  # noqa: SIM905
_BARE_NAMES = """
    Makefile Dockerfile Containerfile Jenkinsfile Vagrantfile Procfile Gemfile Rakefile Justfile Brewfile
    CODEOWNERS .gitignore .gitattributes .dockerignore .editorconfig .env .env.local .env.example .bashrc
    .zshrc .profile .npmrc .vimrc .netrc .pypirc .nvmrc .prettierrc .eslintrc
    """.split()  # noqa: SIM905
_NOT_FILES = frozenset({"console.log", "math.log", "np.log", "torch.log", "self.db", "app.db", "process.go", "self.log"})
"""Attributes of code objects whose name is also a file's extension."""

_ROOTS = frozenset(
    """
    etc usr var home tmp opt root srv mnt media dev proc sys bin sbin lib boot run Users Volumes
    Applications Library workspace workspaces
    """.split()  # noqa: SIM905
)
"""First folders of absolute paths; any other /a/b may just as well be a route of a web API."""
_FOLDERS = frozenset(
    """
    src lib docs doc tests spec scripts config configs migrations components packages pkg cmd internal
    notebooks examples benchmarks node_modules dist vendor include assets static templates infra terraform
    charts .github .claude .vscode .git .ssh .config .cache .venv .circleci .ci .dagster .aws .kube
    .docker
    """.split()  # noqa: SIM905
)
"""First folders of relative paths that need no extension to be known as such; else a/b means "a or b"."""

_URL = (
    r"(?P<URL>\b(?:https?|ftp|ssh|git|s3|gs|postgres(?:ql)?|redis|mongodb|mysql|sqlite|file|amqps?|wss?)://"
    r"[^\s<>\"'`\])}]+)"
)
_EMAIL = r"(?P<EMAIL>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
_SEGMENT = r"[\w.@+\-*]+"
_PATH = (
    r"(?P<PATH>(?<![\w./\\@:~$<-])(?:"
    rf"(?P<anchor>~|\.{{1,2}}|[A-Za-z]:|\$\{{?[A-Z_]+\}}?)?[/\\](?:{_SEGMENT}[/\\])*{_SEGMENT}[/\\]?"
    rf"|{_SEGMENT}(?:[/\\]{_SEGMENT})+[/\\]?"
    rf"|{_SEGMENT}/(?![\w/])))"
)
_FILE = (
    rf"(?P<FILE>(?<![\w./\\@~$-])(?:{'|'.join(re.escape(name) for name in _BARE_NAMES)}"
    rf"|[\w\-.]*[\w\-]\.(?:{'|'.join(sorted(_EXTENSIONS, key=len, reverse=True))}))(?![\w/\\-]|\.\w|\())"
)
_ENV_VAR = (
    r"(?P<ENV_VAR>\$\{?(?P<dollar>[A-Z][A-Z0-9_]+)\b\}?"
    r"|(?<![\w./$-])(?P<shout>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w(/-]|\.\w))"
)
_HANDLE = r"(?P<PERSON>(?<![\w.@/`])@(?P<handle>[A-Za-z][\w-]{1,38})(?![\w/(=]|\.\w))"
_HASHTAG = r"(?P<TAG>(?<![\w#&/.`])\#(?P<tag>[^\W\d_][\w-]*(?:/[\w-]+)*))"

_SURFACE = re.compile(rf"{_URL}|{_EMAIL}|{_ENV_VAR}|{_FILE}|{_PATH}|{_HANDLE}|{_HASHTAG}")
_HAS_EXTENSION = re.compile(rf"\.(?:{'|'.join(_EXTENSIONS)})$")
_ENV_SUFFIX = re.compile(
    r"_(?:URL|URI|KEY|TOKEN|SECRET|PASSWORD|DIR|PATH|HOME|HOST|PORT|DSN|ENV|USER|REGION|LEVEL|FORMAT|TIMEZONE|ID|BUCKET|PROXY)$"
)
_ENV_CONTEXT = re.compile(r"\b(?:env|environment|export(?:ed|s)?|unset|variables?|\.env)\b", re.IGNORECASE)
_COLOUR = re.compile(r"(?=.*\d)(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})|([0-9a-f])\1{2}|([0-9a-f])\2{5}", re.IGNORECASE)
_DECORATORS = frozenset(
    """
    property staticmethod classmethod dataclass override overload cached_property abstractmethod wraps
    contextmanager lru_cache cache final fixture asset op job sensor schedule task flow app route Override
    Deprecated Bean Autowired Component Injectable Input Output Entity Test media import apply tailwind
    param return returns throws deprecated latest next beta main master HEAD everyone here channel all
    """.split()  # noqa: SIM905
)
"""Words that follow an @ in code, style sheets, doc comments, versions and group calls, and name no
person."""
_DIRECTIVES = frozenset(
    """
    include define undef ifdef ifndef endif pragma region endregion else elif error
    """.split()  # noqa: SIM905
)


def find_surface(text: str) -> Iterator[Mention]:
    """Yield what can be told from spelling alone, left to right, without overlaps.

    A mention's text goes without its mark: "@alice" names alice, "#python" the tag python, "$HOME" the
    variable HOME.
    """
    for match in _SURFACE.finditer(text):
        start, found = match.start(), match.group()
        if match["URL"] or match["EMAIL"]:
            kind = EntityType.URL if match["URL"] else EntityType.EMAIL
            name = found.rstrip(".,;:!?'*")
        elif match["FILE"]:
            kind, name = EntityType.FILE, found
            if found.lower() in _NOT_FILES:
                continue
        elif match["PATH"]:
            kind, name = EntityType.FILE, found.rstrip(".,;:!?*")
            if not _is_path(name, anchored=match["anchor"] is not None):
                continue
        elif match["ENV_VAR"]:
            kind, name = EntityType.ENV_VAR, match["dollar"] or match["shout"]
            if match["shout"] and not _is_environment_variable(name, text[match.end() :], text):
                continue
        elif match["PERSON"]:
            kind, name = EntityType.PERSON, match["handle"]
            if name in _DECORATORS:
                continue
        else:
            kind, name = EntityType.TAG, match["tag"]
            if name in _DIRECTIVES or _COLOUR.fullmatch(name):
                continue
        end = start + len(name) if found.startswith(name) else match.end()
        yield Mention(start, end, name, kind)


def _is_path(path: str, *, anchored: bool) -> bool:
    """Whether slashes separate folders, rather than alternatives ("and/or") or parts of a route."""
    segments = [segment for segment in re.split(r"[/\\]", path) if segment]
    if anchored:
        return True
    if not segments:
        return False
    if path.startswith("/"):
        return len(segments) > 1 and (segments[0] in _ROOTS or bool(_HAS_EXTENSION.search(path)))
    if segments[0] in _FOLDERS:
        return True
    if path.endswith("/") and path.islower():
        return True
    capitals = all(segment[0].isupper() for segment in segments)
    return bool(_HAS_EXTENSION.search(path)) and not capitals


def _is_environment_variable(name: str, following: str, text: str) -> bool:
    """Whether an upper-case name is a variable of the environment, rather than a constant in code."""
    assigned = following.startswith("=")
    return assigned or bool(_ENV_SUFFIX.search(name)) or bool(_ENV_CONTEXT.search(text))
