import pytest

from memory_assets.language.surface import find_surface


def found(text: str) -> list[tuple[str, str]]:
    return [(mention.text, mention.type.value) for mention in find_surface(text)]


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("see src/atlas/edges.py:12", ("src/atlas/edges.py", "FILE")),
        ("edit ~/.claude/settings.json.", ("~/.claude/settings.json", "FILE")),
        ("in /etc/hosts", ("/etc/hosts", "FILE")),
        (r"open C:\data\raw", (r"C:\data\raw", "FILE")),
        ("run ./build.sh", ("./build.sh", "FILE")),
        ("the Makefile", ("Makefile", "FILE")),
        ("(README.md)", ("README.md", "FILE")),
        ("see docs/guide", ("docs/guide", "FILE")),
        ("under migrations/", ("migrations/", "FILE")),
        ("in .env", (".env", "FILE")),
        ("set $HOME", ("HOME", "ENV_VAR")),
        ("read ${VAULT_TOKEN}", ("VAULT_TOKEN", "ENV_VAR")),
        ("OLLAMA_URL is unset", ("OLLAMA_URL", "ENV_VAR")),
        ("DEBUG_SQL=1 helps", ("DEBUG_SQL", "ENV_VAR")),
        ("ask @jonas-w.", ("jonas-w", "PERSON")),
        ("tagged #release-notes!", ("release-notes", "TAG")),
        ("see https://x.example/a?b=1.", ("https://x.example/a?b=1", "URL")),
        ("(https://x.example/Rust_(language))", ("https://x.example/Rust_(language)", "URL")),
        ("mail a.b@kestrel.example, please", ("a.b@kestrel.example", "EMAIL")),
    ],
)
def test_spelling_gives_an_entity_away(text: str, entity: tuple[str, str]):
    assert found(text) == [entity]


@pytest.mark.parametrize(
    "text",
    [
        "and/or",
        "TCP/IP and I/O",
        "CI/CD",
        "client/server",
        "React/Next.js",
        "GET /api/v1/health",
        "/users/me",
        "1/2 of 3/4",
        "MAX_CONTENT_LENGTH is 7500",
        "issue #231",
        "colour #ff8800 or #333 or #fff",
        "# A heading",
        "C# and F#",
        "@dataclass and @property",
        "@types/node",
        "@app.route('/')",
        "#include <stdio.h>",
        "console.log",
        "e.g. this, i.e. that",
        "version 1.2.3",
        "done.so we left",
        "moved to tiny-dom@20.0.1, tiny-http@1.x and root@10.0.0.5",
    ],
)
def test_what_only_looks_like_one_is_left_alone(text: str):
    assert found(text) == [] or (text.startswith("#include") and found(text) == [("stdio.h", "FILE")])


def test_a_mail_address_is_no_mention():
    assert found("write to bob@example.org") == [("bob@example.org", "EMAIL")]
