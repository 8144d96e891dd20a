"""Keys and passwords are noticed; what merely looks like them is not."""

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
        ("The passphrase is stored in the vault.", ""),
        ("The password is rotated every 90 days, the passphrase is written down somewhere safe.", ""),
        ("The password is printed, laminated and hidden; Mira knows it.", ""),
        ("Das Passwort ist jetzt im Tresor hinterlegt.", ""),
        ("The reset of the LED's pin 17 is 3.3 V, the pin: 4821.", ""),
    ],
)
def test_what_people_call_a_password_is_masked_and_what_they_say_of_it_is_not(text: str, masked: str):
    assert mask(text) == (masked or text)


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
        "AK" + "IA",
        "eyJ",
        ".",
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
        "api_key:::",
    ],
)
def test_no_long_text_keeps_the_scanner_busy(unit: str):
    find_secrets(unit * (200_000 // len(unit)))
