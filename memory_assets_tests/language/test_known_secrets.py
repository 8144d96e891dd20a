"""Secrets that a text, or another text of the same file or session, repeats."""

from random import Random
from string import ascii_letters, digits

import pytest

from memory_assets.language.guard import known_secrets, without_secrets
from memory_assets.language.secrets import mask, mask_known, secrets_in
from memory_assets.models import NewMemory, Source


def test_a_secret_is_masked_wherever_the_text_repeats_it():
    texts = {
        "The admin password is Kart7!offelbrei. Log in as admin with Kart7!offelbrei and save.": (
            "The admin password is [secret: password]. Log in as admin with [secret: password] and save."
        ),
        "DB_PASSWORD=Zug9spitze77\nThen paste `zug9spitze77`, not Zug9spitze777.": (
            "DB_PASSWORD=[secret: password]\nThen paste `[secret: password]`, not Zug9spitze777."
        ),
        "postgres://atlas2-api:atlas2-api@db1/x is what atlas2-api opens, too: postgres://atlas2-api:atlas2-api@db2/x": (
            "postgres://atlas2-api:[secret: password]@db1/x is what atlas2-api opens, too: "
            "postgres://atlas2-api:[secret: password]@db2/x"
        ),
        "postgres://ada:atlas-api@db1/x opens the database of atlas-api": (
            "postgres://ada:[secret: password]@db1/x opens the database of atlas-api"
        ),
        "PASSPHRASE='tulip-anvil-comet-ferry'\nThen type tulip-anvil-comet-ferry.": (
            "PASSPHRASE='[secret: password]'\nThen type [secret: password]."
        ),
        "DB_PASSWORD=postgres opens the database of postgres": "DB_PASSWORD=[secret: password] opens the database of postgres",
    }
    assert {text: mask(text) for text in texts} == texts


@pytest.mark.parametrize(
    "named",
    [
        "The panel password is Krabbe19xyz!",
        "Is the panel password Krabbe19xyz?",
        "Password: Krabbe19xyz…",
        "The panel password is Krab\u200bbe19xyz.",
        "export PANEL_PASSWORD=Krabbe19xyz&& serve",
    ],
)
def test_a_secret_is_masked_in_the_other_texts_without_the_punctuation_behind_it(named: str):
    for known in (secrets_in([named]), known_secrets([NewMemory(named, Source.CLI)])):
        assert mask_known("Bo typed Krabbe19xyz, then krabbe19xyz.", known) == (
            "Bo typed [secret: password], then [secret: password]."
        )


def test_a_word_is_masked_in_no_other_text_though_punctuation_ends_the_password():
    known = secrets_in(["PANEL_PASSWORD='Sommerregen!'"])
    assert known
    assert mask_known("The Sommerregen fell.", known) == "The Sommerregen fell."


def test_each_of_many_secrets_of_one_file_is_masked_where_another_record_repeats_it():
    random = Random(3)
    tokens = ["gh" + "p_" + "".join(random.choices(ascii_letters + digits, k=36)) for _ in range(100)]
    named = [NewMemory(f"The token of build {number} is {token} now.", Source.IMPORT) for number, token in enumerate(tokens)]
    known = known_secrets(named)
    repeating = [NewMemory(f"Bo typed {token} into the wrong window.", Source.IMPORT) for token in reversed(tokens)]
    masked = "".join(without_secrets(each, known).content for each in (*named, *repeating))
    assert not any(token in masked for token in tokens)
