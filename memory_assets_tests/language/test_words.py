import pytest

from memory_assets.language.words import prose_sentences, sentences, unwrapped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Notruf geprüft am 11. Mai 2026. Seit 1. Juli gilt das.", ["Notruf geprüft am 11. Mai 2026.", "Seit 1. Juli gilt das."]),
        (
            "Es kamen 12. Dann gingen sie. Es blieben 3. Maria ging.",
            ["Es kamen 12.", "Dann gingen sie.", "Es blieben 3.", "Maria ging."],
        ),
        (
            "We meet on 12. May or 3. Oct. 2026. It rained on Jan. 5.",
            ["We meet on 12. May or 3. Oct. 2026.", "It rained on Jan. 5."],
        ),
        (
            "Im 2. Stock tagt sie am Mo. 12.05. wieder. Der 3. Stock ist leer.",
            ["Im 2. Stock tagt sie am Mo. 12.05. wieder.", "Der 3. Stock ist leer."],
        ),
        ("Das sind die 12. Dann gingen sie.", ["Das sind die 12.", "Dann gingen sie."]),
        ("Siehe S. 12 und Kap. 3. Z.B. Ruff ist schnell.", ["Siehe S. 12 und Kap. 3.", "Z.B. Ruff ist schnell."]),
        ("1. Die Rutsche.\n2. Der Turm.", ["1. Die Rutsche.", "2. Der Turm."]),
        ("## 4. Paint the hull\n**2. Sand it.** Then rest.", ["## 4. Paint the hull", "**2. Sand it.** Then rest."]),
        (
            "Dr. Ames takes ca. 20 min. z. B. on Mondays. We then leave.",
            ["Dr. Ames takes ca. 20 min. z. B. on Mondays.", "We then leave."],
        ),
        (
            'Never fall back to `port ?? 80` or `name ?? "?"`. Say `stop! ...` instead.',
            ['Never fall back to `port ?? 80` or `name ?? "?"`.', "Say `stop! ...` instead."],
        ),
        (
            "The choir follows Clarissa M. Ames. We chose plan B. Then Mira drew terminal C. The bus stops there.",
            ["The choir follows Clarissa M. Ames.", "We chose plan B.", "Then Mira drew terminal C.", "The bus stops there."],
        ),
    ],
)
def test_ordinals_list_marks_abbreviations_initials_and_code_end_no_sentence(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        ("Who the user is\nbackend developer\n\nThe user is Jonas.\nHe sails.", 2),
        ("The office has four rooms and two printers,\nwhich stand in the hall.", 0),
        (f"A sentence that is {'very ' * 10}long and was\nwrapped by somebody.", 0),
        (f"A description that is {'very ' * 10}long\nand a hook\n\n{'A long paragraph. ' * 6}", 2),
        (f"A description {'on one line ' * 12}\n\nBoats that come in {'after dark ' * 4}wait\nfor the harbour master", 1),
        (f"A description {'on one line ' * 6}\na hook\n\nThe crew {'of the boat ' * 5}waits\nfor the bell", 2),
        (f"The crew of the boat {'waits ' * 15}for\nthe bell", 0),
        (f"Ports\n\nThe model is {'compiled ' * 7}when\nit is called.\n{'A longer line ' * 8}", 1),
        ("Ports:\n- 80 for the web\n- 90 for metrics", 0),
        ("env of atlas\n\nport=5433\nhost=berlin\nuser=ivo", 3),
        ("", 0),
    ],
)
def test_a_line_break_stays_where_nothing_else_ends_a_sentence(text: str, breaks: int) -> None:
    found = unwrapped(text)
    assert found.count("\n") == breaks
    assert found.split() == text.split()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"The crew of the boat {'waits ' * 8}\nuntil Mondays", 1),
        (f"The crane of the harbour lifts two boats {'or three ' * 3}\nan hour {'in summer ' * 6}\nand one in winter", 1),
        (f"Der Kran des Hafens hebt zwei {'oder drei ' * 4}\nBoote {'in der Stunde ' * 4}\nund eines im Winter", 1),
        (f"A description {'on one line ' * 6}\na hook of its own\n\nA text.", 3),
        ("Kran: neu\nSteg: alt", 2),
        ("- The crane lifts\n  Boats and cars\n- The slip", 2),
        (f"Boats\n\nThe export {'of all the boats ' * 3}is\n**planned, not built** in {'each of the harbours ' * 3}", 2),
        ("Stores\n\n**redis** keeps what is asked often\n**postgres** keeps the orders\n**varnish** keeps pages", 4),
        ("Rules\n\n**Deploy** (Tuesday): from the branch\n**Backup** (daily): to the bucket", 3),
        ("Steps\n\n(a) the crane lifts boats\n(b) the slip is closed", 3),
        (f"Boats\n\nThe export {'of all the boats ' * 3}is\n**Why:** nobody asked {'for one of them ' * 3}", 3),
    ],
)
def test_a_line_break_ends_a_sentence_where_nobody_wrapped_it(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_code_in_a_line_that_begins_with_three_backticks_ends_there() -> None:
    assert prose_sentences("```make test``` runs all tests.\n\n```\nmake\n```\nMira owns it.") == [
        "```make test``` runs all tests.",
        "Mira owns it.",
    ]
