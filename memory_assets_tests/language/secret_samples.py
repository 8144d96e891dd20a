"""Invented secrets, and look-alikes. No literal here is a token: each is assembled from parts at run time."""

import base64
import json
import string
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

Maker = Callable[[Random], str]


def _of(alphabet: str, length: int) -> Maker:
    return lambda random: "".join(random.choices(alphabet, k=length))


def _joined(*parts: str | Maker) -> Maker:
    return lambda random: "".join(part if isinstance(part, str) else part(random) for part in parts)


def _encoded(random: Random, fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields | {"n": random.randrange(10**9)}).encode()).decode().rstrip("=")


def _jwt(random: Random) -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
    return f"{head}.{_encoded(random, {'sub': 'mira', 'iat': 1_700_000_000})}.{_of(URLSAFE, 43)(random)}"


def _pem(label: str) -> Maker:
    def make(random: Random) -> str:
        dashes = "-" * 5
        lines = "\n".join(_of(BASE64, 64)(random) for _ in range(12))
        return f"{dashes}BEGIN {label}{dashes}\n{lines}\n{_of(BASE64, 30)(random)}==\n{dashes}END {label}{dashes}"

    return make


def _password(random: Random) -> str:
    words = ["Harbour", "Kestrel", "violet", "Ladder", "copper", "Tundra", "saddle", "Quartz"]
    return random.choice(
        [
            _joined(random.choice(words), random.choice("!#%*_-"), _of(string.digits, 3), random.choice(words))(random),
            _joined(_of(ALNUM, 7), random.choice("!#%*$"), _of(ALNUM, 6), _of(string.digits, 1))(random),
            _joined(random.choice(words).lower(), _of(string.digits, 4), "!")(random),
        ]
    )


def _telegram(random: Random) -> str:
    return f"{random.randrange(10**9, 9 * 10**9)}:AA{_of(URLSAFE, 33)(random)}"


def _discord(random: Random) -> str:
    user = base64.b64encode(str(random.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{user}.G{_of(ALNUM, 5)(random)}.{_of(URLSAFE, 38)(random)}"


TOKENS: dict[str, Maker] = {
    "memory": _joined("m", "k_", _of(HEX, 12), "_", _of(URLSAFE, 43)),
    "aws access key": _joined("AK", "IA", _of(string.ascii_uppercase + "234567", 16)),
    "aws session key": _joined("AS", "IA", _of(string.ascii_uppercase + "234567", 16)),
    "github": _joined("gh", "p_", _of(ALNUM, 36)),
    "github oauth": _joined("gh", "o_", _of(ALNUM, 36)),
    "github fine-grained": _joined("github", "_pat_", _of(ALNUM, 22), "_", _of(ALNUM, 59)),
    "gitlab": _joined("gl", "pat-", _of(ALNUM, 20)),
    "slack bot": _joined("xo", "xb-", _of(string.digits, 12), "-", _of(string.digits, 12), "-", _of(ALNUM, 24)),
    "slack app": _joined("xa", "pp-1-A", _of(UPPER, 10), "-", _of(string.digits, 13), "-", _of(HEX, 64)),
    "slack webhook": _joined("https://hooks.slack", ".com/services/T", _of(UPPER, 8), "/B", _of(UPPER, 8), "/", _of(ALNUM, 24)),
    "discord webhook": _joined("https://discord.com/api/web", "hooks/", _of(string.digits, 18), "/", _of(URLSAFE, 68)),
    "discord bot": _discord,
    "telegram bot": _telegram,
    "stripe": _joined("sk", "_live_", _of(ALNUM, 24)),
    "stripe restricted": _joined("rk", "_live_", _of(ALNUM, 99)),
    "openai": _joined("s", "k-", _of(ALNUM, 20), "T3Blbk", "FJ", _of(ALNUM, 20)),
    "openai project": _joined("s", "k-proj-", _of(URLSAFE, 74), "T3Blbk", "FJ", _of(URLSAFE, 73), "A"),
    "anthropic": _joined("s", "k-ant-", "api03-", _of(URLSAFE, 93), "AA"),
    "openrouter": _joined("s", "k-or-v1-", _of(HEX, 64)),
    "google api": _joined("AI", "za", _of(URLSAFE, 35)),
    "google oauth": _joined("GOC", "SPX-", _of(ALNUM, 28)),
    "hugging face": _joined("h", "f_", _of(string.ascii_letters, 34)),
    "groq": _joined("gs", "k_", _of(ALNUM, 52)),
    "replicate": _joined("r", "8_", _of(ALNUM, 37)),
    "perplexity": _joined("pp", "lx-", _of(ALNUM, 48)),
    "xai": _joined("x", "ai-", _of(ALNUM, 80)),
    "npm": _joined("np", "m_", _of(ALNUM, 36)),
    "pypi": _joined("py", "pi-AgEIcHlwaS5vcmc", _of(URLSAFE, 80)),
    "sendgrid": _joined("S", "G.", _of(URLSAFE, 22), ".", _of(URLSAFE, 43)),
    "mailchimp": _joined(_of(HEX, 32), "-us", _of("123456789", 1)),
    "twilio": _joined("S", "K", _of(HEX, 32)),
    "digitalocean": _joined("do", "p_v1_", _of(HEX, 64)),
    "azure client": _joined(_of(ALNUM, 3), "8Q", "~", _of(ALNUM, 34)),
    "azure storage": _joined("DefaultEndpointsProtocol=https;AccountName=atlas;Account", "Key=", _of(BASE64, 86), "=="),
    "jwt": _jwt,
    "rsa key": _pem("RSA PRIVATE KEY"),
    "openssh key": _pem("OPENSSH PRIVATE KEY"),
    "pkcs8 key": _pem("PRIVATE KEY"),
    "pgp key": _pem("PGP PRIVATE KEY BLOCK"),
    "age": _joined("AGE-SECRET", "-KEY-1", _of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "vault": _joined("hv", "s.", _of(URLSAFE, 95)),
    "terraform": _joined(_of(ALNUM, 14), ".atlas", "v1.", _of(ALNUM, 67)),
    "databricks": _joined("da", "pi", _of(HEX, 32)),
    "linear": _joined("lin", "_api_", _of(ALNUM, 40)),
    "notion": _joined("nt", "n_", _of(string.digits, 11), _of(ALNUM, 35)),
    "figma": _joined("fi", "gd_", _of(URLSAFE, 40)),
    "postman": _joined("PM", "AK-", _of(HEX, 24), "-", _of(HEX, 34)),
    "shopify": _joined("shp", "at_", _of(HEX, 32)),
    "airtable": _joined("pa", "t", _of(ALNUM, 14), ".", _of(HEX, 64)),
    "doppler": _joined("dp", ".pt.", _of(ALNUM, 43)),
    "grafana": _joined("gl", "sa_", _of(ALNUM, 32), "_", _of(HEX, 8)),
    "new relic": _joined("NR", "AK-", _of(UPPER, 27)),
    "supabase": _joined("sb", "p_", _of(HEX, 40)),
    "tailscale": _joined("ts", "key-auth-", _of(ALNUM, 12), "CNTRL-", _of(ALNUM, 32)),
    "pulumi": _joined("pu", "l-", _of(HEX, 40)),
    "docker hub": _joined("dck", "r_pat_", _of(URLSAFE, 27)),
}
"""Tokens recognised by their shape, regardless of context."""

_SHOWN = (
    "The token of staging is {}.",
    "Use `{}` for the deploy job, it never expires.",
    "- **Key:** {}\n- **Owner:** Mira",
    'config:\n  token: "{}"\n  region: eu-west-1',
    "```sh\nexport SERVICE_TOKEN={}\n```",
    '{{"auth": {{"key": "{}"}}}}',
    "Nils pasted {} into the chat, rotate it.",
)

_NAMED: tuple[tuple[str, str, Maker], ...] = (
    ("aws secret", "AWS_SECRET_ACCESS_KEY={}", _of(BASE64, 40)),
    ("aws secret", "aws_secret_access_key = {}", _of(BASE64, 40)),
    ("aws secret", '"SecretAccessKey": "{}"', _of(BASE64, 40)),
    ("generic", "API_KEY={}", _of(HEX, 32)),
    ("generic", 'api_key: "{}"', _of(ALNUM, 32)),
    ("generic", '"client_secret": "{}"', _of(URLSAFE, 40)),
    ("generic", "The API key is {}", _of(ALNUM, 32)),
    ("generic", "our api token: `{}`", _of(HEX, 40)),
    ("generic", "SECRET_KEY = '{}'", _of(ALNUM + "!@#$%^&*(-_=+)", 50)),
    ("generic", "export ATLAS_ACCESS_TOKEN={}", _of(ALNUM, 40)),
    ("generic", "webhook secret is {}", _of(ALNUM, 32)),
    ("generic", "encryption_key={}", _joined(_of(BASE64, 43), "=")),
    ("bearer", 'curl -H "Authorization: Bearer {}" https://api.example.org', _of(URLSAFE, 40)),
    ("bearer", "Authorization: Basic {}", lambda random: base64.b64encode(f"mira:{_password(random)}".encode()).decode()),
    ("bearer", "X-Api-Key: {}", _of(ALNUM, 32)),
    ("connection", "postgres://atlas:{}@db.example.org:5432/atlas", _of(ALNUM, 14)),
    ("connection", "DATABASE_URL=postgresql+psycopg://app:{}@10.0.0.4/app", _of(ALNUM, 20)),
    ("connection", "mongodb+srv://mira:{}@cluster0.example.net/skiff", _of(ALNUM, 16)),
    ("connection", "redis://:{}@cache.example.org:6379/0", _of(ALNUM, 20)),
    ("connection", "amqp://worker:{}@mq.example.org", _of(ALNUM, 12)),
    ("connection", "https://mira:{}@git.example.org/atlas.git", _of(ALNUM, 20)),
    ("connection", "Server=db;User Id=sa;Password={};Encrypt=true", _password),
    ("password", "password: {}", _password),
    ("password", "DB_PASSWORD={}", _password),
    ("password", 'password = "{}"', _password),
    ("password", '{{"user": "mira", "password": "{}"}}', _password),
    ("password", "The database password is {}.", _password),
    ("password", "PGPASSWORD={} psql -h db atlas", _password),
    ("password", "The Wi-Fi password at the office is {}", _password),
    ("password", "my admin password is `{}`, please remember it", _password),
    ("password", "**Password:** {}", _password),
    ("password", "user mira, pw: {}", _password),
    ("password", "passphrase: {}", _password),
    ("password", "Passwort: {}", _password),
    ("password", "mysql -u root -p{} atlas", _password),
    ("password", "sshpass -p '{}' ssh deploy@host", _password),
    ("password", "curl -u mira:{} https://example.org", _password),
    ("password", "The login for staging is mira / {}", _password),
)
"""Secrets recognised by their name."""


def secrets(random: Random, each: int) -> Iterator[tuple[str, str, str]]:
    """Return `each` texts with a secret for every kind and wording: (kind, text, the secret in it)."""
    for kind, make in TOKENS.items():
        for _ in range(each):
            secret = make(random)
            yield kind, random.choice(_SHOWN).format(secret), secret
    for kind, wording, make in _NAMED:
        for _ in range(each):
            secret = make(random)
            yield kind, wording.format(secret), secret


_HARMLESS: tuple[tuple[str, Maker], ...] = (
    ("Fixed in commit {}.", _of(HEX, 40)),
    ("commit {} broke the build", _of(HEX, 12)),
    ("sha256: {}", _of(HEX, 64)),
    ("`md5` of the file is {}", _of(HEX, 32)),
    ("image: registry.example.org/atlas@sha256:{}", _of(HEX, 64)),
    ('"integrity": "sha512-{}=="', _of(BASE64, 86)),
    ("Session {} was the long one.", lambda random: str(UUID(int=random.getrandbits(128), version=4))),
    ("session_id: {}", lambda random: str(UUID(int=random.getrandbits(128), version=4))),
    ("toolUseId toolu_01{}", _of(ALNUM, 22)),
    ("originSessionId: {}", lambda random: str(UUID(int=random.getrandbits(128), version=4))),
    ("memory {} led to it", lambda random: str(random.randrange(1 << 52, 1 << 53))),
    ("![logo](data:image/png;base64,{})", _of(BASE64, 400)),
    ("data: {}", lambda random: base64.b64encode(b"The harbour opens at nine, bring the blue folder. " * 3).decode()),
    ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} mira@laptop", _of(BASE64, 43)),
    ("See /home/mira/sites/atlas/src/{}/handlers.py", _of(ALNUM, 16)),
    ("https://drive.example.org/file/d/{}/view", _of(URLSAFE, 33)),
    ("https://youtu.be/{}", _of(URLSAFE, 11)),
    ("The trace id is {}", _of(HEX, 32)),
    ("ULID 01{}", _of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24)),
    ('etag: "{}"', _of(HEX, 32)),
    ("build id {}", _of(ALNUM, 20)),
    ("project key {}-1204", _of(string.ascii_uppercase, 4)),
    ("arn:aws:iam::{}:role/deploy", _of(string.digits, 12)),
    ("gpg fingerprint {}", _of("0123456789ABCDEF", 40)),
    ("idempotency key {}", lambda random: str(UUID(int=random.getrandbits(128), version=4))),
    ("cache key {}", _of(HEX, 40)),
    ("primary key is order_{}", _of(string.digits, 6)),
)
_HARMLESS_TEXTS = (
    "The password policy asks for twelve characters.",
    "The password is in 1Password, under Atlas staging.",
    "Passwords are hashed with argon2id; never log them.",
    "Token: see the vault, path kv/atlas/staging.",
    "password: <your password>",
    "password: ********",
    "API_KEY=${ATLAS_API_KEY}",
    "export GITHUB_TOKEN=$(gh auth token)",
    'key = os.environ["OPENAI_API_KEY"]',
    "token: ${{ secrets.DEPLOY_TOKEN }}",
    "client_secret: changeme",
    "Set OPENAI_API_KEY before you start the worker.",
    "The secret of good bread is time.",
    "password = getpass.getpass()",
    "token = request.headers.get('Authorization')",
    "secret_key = settings.SECRET_KEY",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "postgres://user:password@localhost:5432/db",
    "postgres://user:${DB_PASSWORD}@db/app",
    "Password: required, at least twelve characters",
    "The API key is rotated every ninety days by Nils.",
    "The password is wrong on the second try, so the form locks.",
    "api_key: str | None = None",
    "MEMORY_METRICS_TOKEN is off unless it is set.",
    "Our token bucket allows 600 requests a minute.",
    "The key decision: postgres over mongodb-for-atlas.",
    "The pass rate is 97.5 %; the passing tests are listed in docs/tests_passed_2026.md.",
    "Tokens are counted with cl100k_base, about 1.3 tokens a word.",
    "mysql -u root -p atlas",
    "ssh -p 2222 deploy@host",
    "docker run -p 8080:80 nginx",
    'curl -u "$USER:$PASS" https://example.org',
    "The login for staging is on the wiki.",
    "password_hash = Argon2id(memory=65536, rounds=3)",
    "Reset the password at https://example.org/account/reset.",
    "secret: none",
    "auth token expiry: 3600",
    "max_tokens=4096, token_limit: 128000",
    'password field: data-testid="login-password-input"',
    "pw: ask Mira",
    "Her keyboard shortcut is Ctrl+Shift+K.",
    "tokenizer: bert-base-uncased-vocab.txt",
    "The access token lives in ~/.config/atlas/credentials.json.",
    "The token is called deploy-token-staging-2 in the settings.",
    "sk-learn and sk-image are nicknames, pk_order is the primary key.",
    "[[reference_secret_rotation_runbook]] has the password-rotation steps.",
)


def harmless(random: Random, each: int) -> Iterator[str]:
    """Return texts without a secret: `each` of every look-alike, and sentences about secrets that contain none."""
    for wording, make in _HARMLESS:
        for _ in range(each):
            yield wording.format(make(random))
    yield from _HARMLESS_TEXTS
