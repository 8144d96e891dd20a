"""Keys and passwords are detected; look-alikes are not."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_assets.language.secrets import find_secrets, marks, mask
from memory_assets_tests.language.secret_samples import harmless, secrets

ROOT = Path(__file__).parents[2]
PROSE = [*(ROOT / "data" / "sample").rglob("*"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def test_ninety_five_of_a_hundred_invented_secrets_are_masked_whole():
    samples = list(secrets(Random(9), 12))
    missed = [(kind, text) for kind, text, secret in samples if secret in mask(text)]
    assert len(missed) <= 0.05 * len(samples), missed


def test_what_merely_looks_like_a_secret_raises_no_alarm():
    texts = list(harmless(Random(9), 12))
    alarms = [text for text in texts if find_secrets(text)]
    assert len(alarms) <= 0.01 * len(texts), alarms


def test_the_sample_home_and_the_docs_raise_no_alarm():
    texts = {path: path.read_text("utf-8", "replace") for path in PROSE if path.is_file()}
    assert len(texts) > 60
    assert {path.name: found for path, text in texts.items() if (found := find_secrets(text))} == {}


def test_a_mask_names_the_kind_and_leaves_the_rest_of_the_sentence():
    key = "AK" + "IA" + "QX7" * 5 + "B"
    assert mask(f"Staging uses {key} until May.") == "Staging uses [secret: aws access key] until May."
    assert mask('{"user": "mira", "password": "harbour-17!"}') == '{"user": "mira", "password": "[secret: password]"}'
    assert mask("postgres://app:kestrel99@db:5432/atlas") == "postgres://app:[secret: password]@db:5432/atlas"
    assert marks(mask(f"{key} and password: harbour-17!")) == ["aws access key", "password"]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Passwort vom Router: Kranich!Ufer88", "Passwort vom Router: [secret: password]"),
        ("Das Kennwort des NAS lautet Kranich!Ufer88.", "Das Kennwort des NAS lautet [secret: password]."),
        ("Wifi password Sommer2024! for guests", "Wifi password [secret: password] for guests"),
        ("the restic passphrase is wander-plinth-ochre", "the restic passphrase is [secret: password]"),
        ("The passphrase of restic: `wander plinth ochre`.", "The passphrase of restic: `[secret: password]`."),
        ("passphrase is wander plinth ochre quartz", "passphrase is [secret: password]"),
        ("Die PIN der Karte ist 4821.", "Die PIN der Karte ist [secret: pin]."),
        ("docker login -u bot -p Seestern_99 registry.example", "docker login -u bot -p [secret: password] registry.example"),
        ("docker run -p 8080:8080 atlas", ""),
        ("The passphrase is stored in the vault.", ""),
        ("The password is rotated every 90 days, the passphrase is written down somewhere safe.", ""),
        ("The password is printed, laminated and hidden; Mira knows it.", ""),
        ("Das Passwort ist jetzt im Tresor hinterlegt.", ""),
        ("The reset of the LED's pin 17 is 3.3 V, the pin: 4821.", ""),
    ],
)
def test_what_people_call_a_password_is_masked_and_what_they_say_of_it_is_not(text: str, masked: str):
    assert mask(text) == (masked or text)


_SET = [
    ("The root password was changed to Gletscher-9931", "The root password was changed to [secret: password]"),
    ("Set REDIS_PASSWORD to Xy7pQ2rT9v", "Set REDIS_PASSWORD to [secret: password]"),
    ("REDIS_PASSWORD is set to Xy7pQ2rT9vLm in the vault", "REDIS_PASSWORD is set to [secret: password] in the vault"),
    ("Das neue Passwort ist jetzt Apfelbaum99!", "Das neue Passwort ist jetzt [secret: password]"),
    ("Use passphrase 'blue-Otter-42' for the GPG key", "Use passphrase '[secret: password]' for the GPG key"),
    ("Zugangsdaten: mira / k9#Xt!2pQz", "Zugangsdaten: mira / [secret: password]"),
    ("the token is 7d9f-33kk-aa02", "the token is [secret: token]"),
    ('its password is "winter is coming 2026"', 'its password is "[secret: password]"'),
    (
        "The Grafana password was reset to Moorhuhn-7741 last night.",
        "The Grafana password was reset to [secret: password] last night.",
    ),
    ("Nils rotated the API token to q8Wz-41Rt-77Lk on Friday.", "Nils rotated the API token to [secret: token] on Friday."),
    (
        'I set the passphrase to "Nebel-Igel-23" for the backup disk.',
        'I set the passphrase to "[secret: password]" for the backup disk.',
    ),
    ("The Wi-Fi password has been changed to Sturmvogel!88.", "The Wi-Fi password has been changed to [secret: password]."),
    (
        "We switched the SMTP password from Altbau_55x! to Neubau_66y! in May.",
        "We switched the SMTP password from [secret: password] to [secret: password] in May.",
    ),
    ("Das WLAN-Kennwort wurde auf Zimtstern#42 geändert.", "Das WLAN-Kennwort wurde auf [secret: password] geändert."),
    (
        "Das Passwort für den Router wurde von Kieselstein7! auf Basalt-2027x umgestellt.",
        "Das Passwort für den Router wurde von [secret: password] auf [secret: password] umgestellt.",
    ),
    ("Ab sofort ist das Passwort: Lerche+Wolke9", "Ab sofort ist das Passwort: [secret: password]"),
    ("DB_PASSWORD is now Fjord2Tundra and nothing else.", "DB_PASSWORD is now [secret: password] and nothing else."),
    (
        "Please set SMTP_PASSWORD to kiwi_Leder_29 before the deploy.",
        "Please set SMTP_PASSWORD to [secret: password] before the deploy.",
    ),
    ("The password is still Quarz%Turm12, do not tell anyone.", "The password is still [secret: password], do not tell anyone."),
    ("Zugangsdaten für das Portal: ole / Birke!Teich5", "Zugangsdaten für das Portal: ole / [secret: password]"),
    ("Credentials are mona / Salz+Pfeffer8", "Credentials are mona / [secret: password]"),
    ("The client secret was updated to Zt5nQ81xLw03Kd92Rb.", "The client secret was updated to [secret: client secret]."),
    ("API key Vx83kQm29TzLw7Rb4NpYc6Hd1Gs5Jf0A for the weather service.", "API key [secret: api key] for the weather service."),
    ("The token has now been set to 4kd8-99za-17qp.", "The token has now been set to [secret: token]."),
    ('The disk\'s passphrase is "seven ravens over 1987".', 'The disk\'s passphrase is "[secret: password]".'),
    ("Use password 'Harz.Kamm#19' on the jump host.", "Use password '[secret: password]' on the jump host."),
    ("Die PIN der Alarmanlage wurde auf 7306 geändert.", "Die PIN der Alarmanlage wurde auf [secret: pin] geändert."),
    (
        "Her admin password changed from Linde.2024! to Ulme.2025!",
        "Her admin password changed from [secret: password] to [secret: password]",
    ),
    ("docker login -u bot -p Heide_4711 hub.example", "docker login -u bot -p [secret: password] hub.example"),
    ("podman login hub.example --password=Heide_4711", "podman login hub.example --password=[secret: password]"),
    ("psql -h db -U app -W Heide#47 atlas", "psql -h db -U app -W [secret: password] atlas"),
    ("PASSWORD Heidekraut47", "PASSWORD [secret: password]"),
    ("Use pw Heide_4711 for the proxy", "Use pw [secret: password] for the proxy"),
    ("Login for Kibana: admin:Heide!kraut", "Login for Kibana: admin:[secret: password]"),
    ("- **Login:** `admin` / `Heide!kraut9`", "- **Login:** `admin` / `[secret: password]`"),
    ("The creds (`admin`/`Heide!kraut9`) of staging", "The creds (`admin`/`[secret: password]`) of staging"),
    ("Credentials `admin`:`Heide!kraut9`", "Credentials `admin`:`[secret: password]`"),
    ("Log in as admin/Heide!kraut9 first", "Log in as admin/[secret: password] first"),
    ("DB user `sa`, pass `Heide!kraut9`, port 1433", "DB user `sa`, pass `[secret: password]`, port 1433"),
    ("The SA password (`deploy/.env` = `Heide!kraut9`)", "The SA password (`deploy/.env` = `[secret: password]`)"),
    ("The Wi-Fi key of the workshop: Heidekraut2026", "The Wi-Fi key of the workshop: [secret: password]"),
    ("Der WLAN-Schlüssel lautet Heidekraut2026.", "Der WLAN-Schlüssel lautet [secret: password]."),
    ("WLAN-Passwort: Heide und Moor 47", "WLAN-Passwort: [secret: password]"),
    ("TOTP secret MFRGGZDFMZTWQ2LK for the console", "TOTP secret [secret: totp secret] for the console"),
    ("The 2FA seed is MFRG GZDF MZTW Q2LK.", "The 2FA seed is [secret: totp secret]."),
    ("The recovery codes are 4417-9920 and 3301-7788", "The recovery codes are [secret: recovery code]"),
    ("Recovery codes:\n- a1b2c-d3e4f\n- 9k8m7-2n3p4\nKeep them.", "Recovery codes:\n- [secret: recovery code]\nKeep them."),
    ("Die Notfallcodes lauten 44179920, 33017788.", "Die Notfallcodes lauten [secret: recovery code]."),
    ("Der Schlüssel fürs API heißt 3c5a7e9b1d2f4068a7b9c1d3e5f70812", "Der Schlüssel fürs API heißt [secret: key]"),
    ("Unser API-Schlüssel lautet 3c5a7e9b1d2f4068a7b9c1d3e5f70812", "Unser API-Schlüssel lautet [secret: api key]"),
    ("the password is not Heide47x, it's Moor88y", "the password is not [secret: password], it's [secret: password]"),
    (
        "Das Passwort ist nicht mehr Heide47x, sondern Moor88y.",
        "Das Passwort ist nicht mehr [secret: password], sondern [secret: password].",
    ),
    ("My pin for the alarm is 3302-17.", "My pin for the alarm is [secret: pin]."),
]
"""Sentences in which a secret is set, changed or handed over, and as they are kept."""
_SPOKEN_OF = [
    "The password was changed by Ines.",
    "The token is valid for an hour.",
    "The password is set to expire in 90 days.",
    "The password was reset by ops-team2 on Monday.",
    "The password was changed on 2026-03-14.",
    "The password policy was changed from 8-character to 12-character minimum.",
    "We changed the password length from 10 to 16 characters.",
    "Set the password to something only you know.",
    "Set REDIS_PASSWORD to the value in the vault.",
    "DB_PASSWORD is set to a random string by the installer.",
    "The password is correct!",
    "Is the password wrong?",
    "The token is refreshed every 15 minutes.",
    "The token was moved to vault path kv2/atlas/staging.",
    "The secret is rotated by the operator every 30 days.",
    "The API key was revoked on 3 May 2026.",
    "The API key is stored in AWS Secrets Manager, eu-west-1.",
    "The access token is a JWT with RS256.",
    "Passwords are stored as argon2id hashes since 2025.",
    "The password was switched to argon2id-hashing in release 3.2.",
    "The password has been changed twice since May.",
    "Das Passwort wurde von Ines42 geändert.",
    "Das Passwort ist jetzt im Tresor.",
    "Das Passwort wurde auf Wunsch von Ole geändert.",
    "Das Kennwort ist seit Montag abgelaufen.",
    "Das Passwort lautet anders als zuvor.",
    "Die Zugangsdaten liegen bei Mona / Einkauf.",
    "Zugangsdaten: bitte bei Mona / Ole erfragen.",
    "Use password authentication for host web01.",
    "Use password 'authentication' instead of keys.",
    'The login password field has the id "login-password-2".',
    "The secret sauce is time and 2 lemons.",
    'The passphrase prompt says "enter the passphrase for key 2".',
    'The form says: password "must be at least 12 characters long".',
    "The token budget was changed from 4000 to 8000.",
    "The token count is 128k and the limit was set to 200k.",
    "The tokenizer was switched from cl100k_base to o200k_base.",
    "The PIN was changed to one of 4 digits.",
    "The PIN is checked after 3 tries.",
    "The auth service was moved from web01 to web02 and the credentials were renewed.",
    "The password for staging01 was changed to the one of prod02.",
    "Ask Nils for the password to build-server-7.",
    "The password is set to expire on day90.",
    "The password was set to never expire on srv-web01.",
    "The token is set to expire2 after login.",
    "Switch the password to passkeys on iOS18.",
    "We changed the password manager from LastPass to 1Password8.",
    "We switched the password manager from KeePass2 to Bitwarden.",
    "The password rules changed from NIST800-63A to NIST800-63B.",
    "We moved the secret from vault1 to vault2-prod.",
    "Change the password on web01 to match db02-main.",
    "Send the token to staging01-api after login.",
    "The password reset link was sent to mira42@example.org.",
    "Send the password to mira@example.org by Signal.",
    "Reset the password and send it to mira@example.org.",
    "Set the token to read-only2.",
    "Set the password to at least 12 characters.",
    "Set MAX_PASSWORD_LENGTH to 64 characters.",
    "Set PASSWORD_MIN_LENGTH to 16 and PASSWORD_HASH to argon2id.",
    "PASSWORD_ENCRYPTION is set to scram-sha-256 in Postgres.",
    "password_encryption was changed from md5 to scram-sha-256.",
    "The password hash was changed from bcrypt12 to argon2id.",
    "The auth was switched from OAuth1.0a to OAuth2.1.",
    "The auth is now OIDC2-based.",
    "The token is now rotated by cron@02:00.",
    "The token was changed to JWT-v2.",
    "Das Passwort wird von v1.2.3-beta auf v1.3.0-rc1 umgestellt.",
    "Das Passwort haben wir im Tresor auf Ebene2-Links abgelegt.",
    "The credentials are in kv/atlas-2/staging.",
    "The login is via web01/sso-v2login",
    "Zugang: Tor 3 / Halle12-Nord",
    "Zugang ist über Haus5 / Aufgang2b",
    "Account 4711 is billed to project / team-42x",
    "The secret is to use flour type550.",
    "The secret is: knead for 10minutes.",
    "The access key is beside locker2b-left.",
    "The service key: 4mm-hex-2 and 5mm-hex-3",
    "The auth token is valid until 2026-11-26T10:00:00Z.",
    "The token is 3600s long valid.",
    "The password changed from time to time.",
    "Our password is changed every quarter, see SOC2-CC6.1.",
    "The password was updated to comply with ISO27001.",
    "The storage key is sorted as k1a2b3 in the index.",
    "PIN is now mandatory since 2026.",
    "The PIN was changed in 2024.",
    "The PIN was set to expire 2026.",
    "The pin is set to 1200 rpm.",
    "Token is now 1024 wide.",
    "password: see page 12b4.",
    "Password: P.O. Box 1234",
    "The password was reset to default.",
    "Das Passwort ist auf Seite12 notiert.",
    "Change passwords from plain to bcrypt2a hashing",
    "docker login reads the password from stdin with --password-stdin instead.",
    "docker login -u bot, then docker run -p 8080:8080 hub.example/app",
    "psql -W atlas2026 asks for the password before it connects.",
    "psql -U app -W -h db.example -d atlas",
    "PASSWORD FIELD2 is left of PASSWORD FIELD3",
    "Reset the pw on Monday2 for everyone.",
    "The pw policy is told in Handbook2026 on page 4",
    "Login for Grafana: localhost:3000",
    "Log in as admin/editor-2, user mira/Ole-team42, users a/b2345678.",
    "Log in as root, pass `timeout=30s` and --force=2, user: mira:read-only2",
    "Login: https://grafana.example/login",
    "Login at the desk: Mon:10-12 and Tue:14-16",
    "Credentials are in vault:atlas-2026.",
    "The Wi-Fi key is printed on the router.",
    "The WLAN key is AES128-based.",
    "The WPA2 key has 63 characters at most.",
    "Passwort: siehe Ordner im Schrank 77",
    "Passwort: Mira und Ole fragen",
    "The password: ask Mira and Ole at 14",
    "The TOTP secret is kept in the vault.",
    "TOTP secrets are ROTATEDEVERYYEARAGAIN by the operator.",
    "The recovery codes are in the safe of room 4711-2.",
    "The recovery code is in release-2026.",
    "The backup code writes backup-2026 every night.",
    "The backup codes are one-time codes.",
    "Recovery codes: 10 for each account, printed in 2026-03.",
    "Der Schlüssel fürs API liegt im Tresor.",
    "Der Schlüssel der Tabelle ist 550e8400-e29b-41d4-a716-446655440000.",
    "Der Schlüssel für den Keller hängt bei Mona.",
    "the password is not expired, it's only locked",
    "The password is not in release2, it's in the vault.",
    "The token is not refreshed, but staging2-web asks again.",
    "My pin for the map is in folder 4711.",
    "Our pin header has 2026 soldered on it.",
]
"""Sentences about secrets and changes that contain none."""

_LOOK_LIKE_PLACEHOLDERS = [
    "#Sommer2024!",
    "&9kLm!xx7Q",
    "$uper!Geheim9",
    "%Sommer2024!",
    "MyDog!Rex2019",
    "Test!2024#kx",
    "Password!2024",
    "Hidden!Door77",
    "your-dog!Rex2019",
    "Geheim(2024)!",
    "Sommer.Regen2024",
    "Ab3/xyZ9kk",
    'Ge9"xyZ!kk',
    "Geheim9'xyZ!kk",
    "Ab3<xyZ9kk!",
    "Abcdef3<xyZ9kk!",
]
"""Passwords that begin like a placeholder or contain what ends other values."""
_PLACEHOLDERS = [
    "$DB_PASSWORD",
    "${DB_PASSWORD:-none}",
    "$config['db1']",
    "%PASSWORD%",
    "%(password)s1",
    "<your password>",
    "&lt;password&gt;",
    "&#x3C;string>]",
    "b'password1'",
    "#optional",
    "&default_password",
    "test-password-123",
    "your-password-123",
    "xxxxxxxx",
    "String(255)",
    'os.getenv("DB_PASS2")',
    'std::env::var("DB_PASS2")?',
    "settings.database.password2",
    "Optional<String>",
    "test&user=bob2",
    "$2b$12$abcdefghijklmnopqrstuv",
    "kv/atlas-2/staging",
    "2026-03-01T10:00:00Z",
]
_BASE64 = "yAnz5TF+lXXJte14tji3zlMNq+" + "hd2rYUIgJBgB3fBmk="
_HEX = "3c5a7e9b1d2f4068" + "a7b9c1d3e5f70812"
_LAID_OUT = [
    ('Das Passwort ist "Xy7kk22! Blau Tee9"', 'Das Passwort ist "[secret: password]"'),
    ('docker run -e "DB_PASSWORD=Xy7kk22!" -d atlas', 'docker run -e "DB_PASSWORD=[secret: password]" -d atlas'),
    ("{'password':'a1!bcdefx','user':'x'}", "{'password':'[secret: password]','user':'x'}"),
    ("<p>password: Xy7!kk22</p>", "<p>password: [secret: password]</p>"),
    ("postgres://app:Test!2024#kx@db/atlas", "postgres://app:[secret: password]@db/atlas"),
    ("GRAFANA_PASS=Qa5kkpassenv99", "GRAFANA_PASS=[secret: password]"),
    ("ansible_become_pass: Qa6kkansible11", "ansible_become_pass: [secret: password]"),
    ("Pass: Qa7!kkpass22", "Pass: [secret: password]"),
    ("DB_PASS=Sommer", "DB_PASS=[secret: password]"),
    ("rootpw=Kaffee9x", "rootpw=[secret: password]"),
    ("JWT_SECRET=supergeheimesjwt", "JWT_SECRET=[secret: jwt secret]"),
    (f"PresharedKey = {_BASE64}", "PresharedKey = [secret: presharedkey]"),
    ("PSK = kaffeetasse9", "PSK = [secret: password]"),
    (f"APP_KEY=base64:{_BASE64}", "APP_KEY=[secret: app key]"),
    (f"OPENAI_KEY={_HEX}", "OPENAI_KEY=[secret: openai key]"),
    (f"SECRET_KEY_BASE={_HEX}{_HEX}", "SECRET_KEY_BASE=[secret: secret key base]"),
    ("Der OpenAI-Schlüssel ist abcDEF123ghiJKL456mno", "Der OpenAI-Schlüssel ist [secret: key]"),
    ("| Password | Xy7!kk22 |", "| Password | [secret: password] |"),
    ("**Password** — Qa2!dashkk66", "**Password** — [secret: password]"),
    ("| Kennwort | Xy7!kk22 |", "| Kennwort | [secret: password] |"),
    ("Passwort (WLAN): Qa3!parenkk77", "Passwort (WLAN): [secret: password]"),
    ("Password:\n  - Qa4!listkk88", "Password:\n  - [secret: password]"),
    ("machine hub login bob password Qa8kkNetrc33", "machine hub login bob password [secret: password]"),
    ("<password>Kaffee9!x</password>", "<password>[secret: password]</password>"),
    ("creds: bob / Xy7!kk22", "creds: bob / [secret: password]"),
    ("The root password on host:22 is Xy7!kk22", "The root password on host:22 is [secret: password]"),
    (r"{\"user\":\"bob\",\"password\":\"hunter2abc9!\"}", r"{\"user\":\"bob\",\"password\":\"[secret: password]\"}"),
    (r'"{\\\"password\\\": \\\"hunter2abc9!\\\"}"', r'"{\\\"password\\\": \\\"[secret: password]\\\"}"'),
    ("password: >-\n    hunter2abc9!\n", "password: >-\n    [secret: password]\n"),
    ("Driver=x;UID=sa;PWD=/ab9!Xq2Rt", "Driver=x;UID=sa;PWD=[secret: password]"),
    ("DB_PASSWORD=/Seog7dGsF1wvzFB", "DB_PASSWORD=[secret: password]"),
    ("password: |\n  hunter2abc9!", "password: |\n  [secret: password]"),
    (f"API key (prod): {_HEX}", "API key (prod): [secret: api key]"),
    (f"| API key | {_HEX} |", "| API key | [secret: api key] |"),
    ("- name: DB_PASSWORD\n  value: postgres", "- name: DB_PASSWORD\n  value: [secret: password]"),
    (
        '{"name": "DB_PASSWORD", "value": "hunter2abc9!"}',
        '{"name": "DB_PASSWORD", "value": "[secret: password]"}',
    ),
    (
        f"Public-Lines: 1\n{_BASE64}\nPrivate-Lines: 2\n{_BASE64}\nAAAA\nPrivate-MAC: 4a",
        f"Public-Lines: 1\n{_BASE64}\n[secret: private key]\nPrivate-MAC: 4a",
    ),
    (
        f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: a-b\n{_BASE64}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
        "[secret: private key]\n",
    ),
]
"""Secrets in files, tables, lists and quotes, and as they are kept."""
_IDS = [
    "Storage key: photos/2024/01/IMG_2024.jpg",
    "Deploy key: SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8",
    "The signing key is 4AEE18F83AFDEB23 (a GPG key id)",
    "The API key id is 7d9f33kkaa02.",
    "access_key_id = Vx83kQm29TzLw7Rb4Np",
    "GPG signing key: 5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23",
    "The encryption key of the bucket is arn:aws:kms:eu-central-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab",
    "AWS account: atlas-prod / 123456789012",
    "Die Wallbox hat pw=11kW@3phasen",
    'The password error is "invalid user or password"',
    "The password is 'at least 12 characters'.",
    'Das Passwort ist "mindestens 12 Zeichen lang", sagt die Seite.',
    "We changed the password policy in May.",
    "Der Schlüssel liegt unter der Matte.",
    "Pass the salt, please.",
    "The pass over the mountain: 1,200 m",
    "Zugang: über den Hof",
    "login page / signup page",
    "PSK is an acronym for pre-shared key.",
    "PSK = phase-shift keying",
    "WPA2-PSK: AES-CCMP128",
    "The modulation is 8-PSK = 3 bits a symbol.",
    "First pass: 97.5% of the tests",
    "Pass: 12/14 (85%)",
    "Pass: bob@web01 and ole@web02",
    "PASS: test_login_2 in 0.4s",
    "Ski pass: CHF 89.50!",
    "FIRST_PASS=enabled",
    "num_pass: 123456",
    "Passwort (optional): mindestens 12 Zeichen",
    "Password (8+): letters2 and digits",
    "| Password | OAuth2 | Token2 |",
    "| Passwort | mind. 8 Zeichen! |",
    "Password – 8+ characters, no spaces",
    "Password:\n  - 12+ characters\n  - upper case and 2 digits",
    '<label for="password">Password2:</label>',
    "<password>required</password>",
    "machine readable login form password fields",
    "The OpenAI key is stored in 1Password.",
    "Der USB-Schlüssel ist grün.",
    "JWT_SECRET is not set.",
    "K8S_SECRET=atlasdatabase",
    'url = "https://x/?user="+user1+"&password="+pw1+"&x=1"',
    "password = Column(String(255), nullable=False)",
    "creds: in the vault / staging folder",
    "The root password on host:22 is unknown.",
    "The token at 12:30 is expired.",
    "https://atlas-organisation-2024-long-name@dev.azure.com/atlas-organisation/repo",
    f"https://{_HEX}@o123.ingest.sentry.io/456",
    "Authorization: token required for writes",
    "http://localhost:3000/@vite/client and ssh://git.example:team/repo@v2",
    r"password: C:\keys\atlas2.txt",
    'The password: "OAuth2 or the PIN2 of the phone"',
    "password = decrypt_v2(key1, salt2)",
    "password: ops/db01/pw2 in the vault",
    "PWD=/home/max/projects/atlas-2\nOLDPWD=/home/max",
    "DB_PASS=/run/secrets/db_pass",
    "FORGOT_PASSWORD=/reset",
    "password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  62313365396662343061393464336163",
    "password: !secret wifi_password",
    "The seed phrase is written down twice, stays with the notary and never leaves the safe without both keys",
    "A mnemonic helps people remember long lists because every first letter stands for one planet",
    "Seed phrase: write every word down, then check them twice with somebody who owns the wallet",
    "password: `vault kv get -field=pw1 kv2/atlas`",
    'password: "see RFC2617 and RFC7235"',
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db2, key: password1}",
    "- name: DB_PASSWORD\n  value: $(OTHER_PASSWORD1)",
    "API key (optional): see page 12",
    "| Token | Meaning of the token in 2026 |",
    "https://example.org/?sig=short&x=1",
]
"""Ids, digests and sentences beside the words that name secrets."""


def test_a_secret_that_is_set_changed_or_handed_over_is_masked():
    assert [mask(text) for text, _ in _SET] == [masked for _, masked in _SET]


def test_sentences_of_secrets_that_name_none_stay_as_they_are():
    assert [mask(text) for text in _SPOKEN_OF] == _SPOKEN_OF


@pytest.mark.parametrize("before", ["password: ", "Das Passwort ist "])
def test_a_password_that_begins_like_a_placeholder_is_masked_whole(before: str):
    texts = [before + password for password in _LOOK_LIKE_PLACEHOLDERS]
    assert [mask(text).removesuffix("!") for text in texts] == [f"{before}[secret: password]"] * len(texts)


@pytest.mark.parametrize(
    ("before", "password", "after"),
    [
        ("password: ", "04rr38#'fT;`D<8^", ""),
        ("postgresql://admin:", "Kart@ffel7!", "@db.example.com/prod"),
        ("postgresql://admin:", "Kart/ffel7!", "@db.example.com/prod?by=mira@example.org"),
        ("Postgres app password: ", "Seog7dGsF/1wvzFB", ""),
        ("password: ", r"Tr0ub\4dor&3xyz", " # of the rack"),
        ('{"password": "', r"Tr0ub\"4dor&3xyz", '", "user": "mira"}'),
        ('password: "', "Xk9 mPq2vR tt", '"'),
        ("Passwort: „", "Xk9 mPq 2vR", "“, nur intern"),
        ("password: ", "DrsdRJ53w[aMAMk", ";"),
    ],
)
def test_a_generated_password_is_masked_whole(before: str, password: str, after: str):
    assert mask(before + password + after) == f"{before}[secret: password]{after}"


_WALLET = "legal winner thank year wave sausage worth useful must least any about"


@pytest.mark.parametrize(
    "text",
    [
        "Seed phrase: {}",
        "My recovery phrase is {}. Keep it.",
        'The mnemonic of the Ledger: "{}"',
        "seed phrase {}\nNext line.",
        "Recovery words:\n{}\n",
    ],
)
def test_the_words_of_a_wallet_are_masked(text: str):
    assert mask(text.format(_WALLET)) == text.format("[secret: password]")
    assert mask(text.format(f"{_WALLET} {_WALLET}")) == text.format("[secret: password]")


def test_the_numbered_words_of_a_wallet_are_masked():
    numbered = "\n".join(f"{place}. {word}" for place, word in enumerate(_WALLET.split(), 1))
    assert mask(f"Seed phrase:\n{numbered}") == "Seed phrase:\n1. [secret: password]"


def test_placeholders_code_and_references_stay_as_they_are():
    texts = [f"password: {placeholder}" for placeholder in _PLACEHOLDERS]
    assert [mask(text) for text in texts] == texts


def test_secrets_in_files_tables_lists_and_quotes_are_masked_whole():
    assert [mask(text) for text, _ in _LAID_OUT] == [masked for _, masked in _LAID_OUT]


def test_ids_digests_and_sentences_beside_the_names_of_secrets_stay_as_they_are():
    assert [mask(text) for text in _IDS] == _IDS


@pytest.mark.parametrize("prefix", ["dpl_", "prj_", "cs_test_", "pi_", "msg_01", "req_011", "chatcmpl-", "run_"])
def test_the_ids_of_known_services_are_no_tokens(prefix: str):
    text = f"See {prefix}5WJWYSyB7BpgTj3EuwF37WMR" + "BXBPQ7Kx for it."
    assert mask(text) == text


def test_a_token_is_found_beside_any_character():
    github = "gh" + "p_" + "abcdefghijklmnopqrstuvwxyz" + "0123456789"
    telegram = "123456789" + ":AA" + "abcdefghijklmnopqrstuvwxyz0123456"
    signature = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1" + "wXy4zAb7cDe0fGh1%3D"
    user = "q7w8e9r0t1y2u3i4o5p6" + "a7s8d9f0g1h2j3k4l5z6"
    old = "abcdef0123456789" * 2 + "abcdef01"
    texts = {
        f"_{github}_ or __{github}__": "_[secret: github token]_ or __[secret: github token]__",
        f"https://x.example/?next=%3D{github}": "https://x.example/?next=%3D[secret: github token]",
        f"https://api.telegram.org/bot{telegram}/send": "https://api.telegram.org/[secret: telegram token]/send",
        f"https://a.example/c?sv=2022-11-02&sp=rl&sig={signature}": "https://a.example/c?sv=2022-11-02&sp=rl&sig=[secret: signature]",
        f"git clone https://{user}@dev.azure.com/org/repo": "git clone https://[secret: token]@dev.azure.com/org/repo",
        f"Authorization: token {old}": "Authorization: token [secret: authorization]",
    }
    assert {text: mask(text) for text in texts} == texts


def test_the_secret_of_an_aws_key_is_masked_beside_its_id():
    key, secret = "AK" + "IA" + "QX7" * 5 + "B", "h8Jq2LmX9vT0bRz7YwKc" + "4NsPdE1uGfA6iOt3xZVk"
    assert (
        mask(f"AWS access key {key} and secret {secret}") == "AWS access key [secret: aws access key] and secret [secret: secret]"
    )


def test_a_password_that_was_changed_is_masked_with_the_new_one():
    assert mask("We changed the DB password from Kr4ken!Tief to Ozean#77x") == (
        "We changed the DB password from [secret: password] to [secret: password]"
    )


@pytest.mark.parametrize("unseen", ["\u200b", "\u200d", "\u00ad", "\u2060", "\ufeff", "\ufe0f", "\u3164", "\x00", "\U000e0041"])
def test_characters_that_show_nothing_hide_no_secret(unseen: str):
    key = "AK" + "IA" + "QX7T" * 4
    assert mask(f"The pass{unseen}word: Krabbe{unseen}19xyz.") == f"The pass{unseen}word: [secret: password]."
    assert mask(f"Staging\tuses {key[:9]}{unseen}{key[9:]} now") == "Staging\tuses [secret: aws access key] now"
    assert mask(f"Staging uses{unseen}{key} now") == f"Staging uses{unseen}[secret: aws access key] now"
    assert mask(f"Crane {unseen}3 is red.") == f"Crane {unseen}3 is red."


_PIECES = st.sampled_from(
    [
        "password",
        "token",
        "is",
        ":",
        "=",
        " ",
        "\n",
        "://",
        "@",
        "-p",
        "Bearer",
        "api key",
        "[secret: password]",
        "changed from",
        "to",
        "AK" + "IA",
        "eyJ",
        ".",
        "\u200b",
    ]
) | st.text(max_size=12)


@settings(max_examples=60)
@given(st.lists(_PIECES, max_size=12).map("".join), st.sampled_from(list(secrets(Random(3), 1))))
@example("://password@", ("password", "The Wi-Fi password at the office is Harbour-232Harbour", "Harbour-232Harbour"))
def test_masking_again_changes_nothing_and_secrets_lie_apart(text: str, sample: tuple[str, str, str]):
    whole = f"{text} {sample[1]} {text}"
    found = find_secrets(whole)
    assert all(first.end <= second.start for first, second in pairwise(found))
    assert all(0 <= secret.start < secret.end <= len(whole) for secret in found)
    assert mask(mask(whole)) == mask(whole)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    [
        "password for a at ",
        "eyJ-",
        "eyJabcdefgh.eyJ",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "a",
        "Aa1_",
        "curl -u ",
        "mysql x",
        "login is ",
        "token = ",
        "secret secret",
        "password changed from abcdef1 to ",
        'passphrase "a1 b2 c3 ',
        "password is set to now ",
        "token to ",
        "api_key:::",
        "docker login -u a ",
        "psql -U a ",
        "login: ab:",
        "recovery codes are 1234-5678 1234-5678 ",
        "totp secret ABCD ",
        "password is not abcdef1, it's ",
        "schlüssel für die ",
        "passwort: ab und ",
        "pw a1 ",
        "pass: ",
        "password: a'b<c",
        'password: "abc!12 ',
        "password (a ",
        "password | ",
        "password:\n- ",
        "<a:password>",
        'password\\"',
        "password: |\n ",
        "seed phrase abc ",
        'password: "\\"a1! ',
        "password\n value: ",
        "Private-Lines: 1\nabcd",
        "machine a login b ",
        "_pass",
        "openai_",
        "?sig=a",
        "authorization: token ",
        "password on host:22 ",
        "%3D",
    ],
)
@pytest.mark.timeout(40)
def test_no_long_text_keeps_the_scanner_busy(unit: str):
    find_secrets(unit * (50_000 // len(unit)))
