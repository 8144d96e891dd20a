"""English verbs: irregular forms as a list, regular ones by spelling, and verbs that the tagger took for nouns.

Irregular verbs are a closed set, so that a list knows more than statistics of it ("Sparkle stole pizza" was three nouns).
"""

import re
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_FORMS = """
    arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|befall befell befallen|
    begin began begun|behold beheld beheld|bend bent bent|bind bound bound|bite bit bitten|bleed bled bled|blow blew blown|
    break broke broken|breed bred bred|bring brought brought|broadcast broadcast broadcast|build built built|buy bought bought|
    catch caught caught|choose chose chosen|cling clung clung|come came come|creep crept crept|deal dealt dealt|dig dug dug|
    draw drew drawn|dream dreamt dreamt|drink drank drunk|drive drove driven|dwell dwelt dwelt|eat ate eaten|fall fell fallen|
    feed fed fed|feel felt felt|fight fought fought|find found found|flee fled fled|fling flung flung|fly flew flown|
    forbid forbade forbidden|foresee foresaw foreseen|forget forgot forgotten|forgive forgave forgiven|forgo forwent forgone|
    freeze froze frozen|get got gotten|give gave given|go went gone|grind ground ground|grow grew grown|hang hung hung|
    have had had|hear heard heard|hide hid hidden|hold held held|keep kept kept|kneel knelt knelt|know knew known|
    lay laid laid|lead led led|leap leapt leapt|learn learnt learnt|leave left left|lend lent lent|lie lay lain|light lit lit|
    lose lost lost|make made made|mean meant meant|meet met met|mislead misled misled|mistake mistook mistaken|
    misunderstand misunderstood misunderstood|outgrow outgrew outgrown|outdo outdid outdone|overcome overcame overcome|
    overdo overdid overdone|override overrode overridden|oversee oversaw overseen|oversleep overslept overslept|
    overtake overtook overtaken|overthrow overthrew overthrown|overwrite overwrote overwritten|pay paid paid|prove proved proven|
    rebuild rebuilt rebuilt|redo redid redone|remake remade remade|repay repaid repaid|rerun reran rerun|resell resold resold|
    rethink rethought rethought|retell retold retold|rewind rewound rewound|rewrite rewrote rewritten|ride rode ridden|
    ring rang rung|rise rose risen|run ran run|say said said|see saw seen|seek sought sought|sell sold sold|
    send sent sent|sew sewed sewn|shake shook shaken|shave shaved shaven|shine shone shone|shoot shot shot|show showed shown|
    shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat sat|sleep slept slept|slide slid slid|sling slung slung|
    slink slunk slunk|smell smelt smelt|sow sowed sown|speak spoke spoken|speed sped sped|spell spelt spelt|spend spent spent|
    spill spilt spilt|spin spun spun|spit spat spat|spoil spoilt spoilt|spring sprang sprung|stand stood stood|
    steal stole stolen|stick stuck stuck|sting stung stung|stink stank stunk|stride strode stridden|strike struck struck|
    string strung strung|strive strove striven|swear swore sworn|sweep swept swept|swell swelled swollen|swim swam swum|
    swing swung swung|take took taken|teach taught taught|tear tore torn|tell told told|think thought thought|
    throw threw thrown|tread trod trodden|undergo underwent undergone|understand understood understood|
    undertake undertook undertaken|undo undid undone|uphold upheld upheld|wake woke woken|wear wore worn|weave wove woven|
    weep wept wept|win won won|wind wound wound|withdraw withdrew withdrawn|withhold withheld withheld|
    withstand withstood withstood|wring wrung wrung|write wrote written"""
_PARTS = [entry.split() for entry in _FORMS.split("|")]

IRREGULAR = {form: base for base, *forms in _PARTS for form in forms if form != "lay"}
IRREGULAR |= {
    "saw": "see",
    "am": "be",
    "are": "be",
    "is": "be",
    "was": "be",
    "were": "be",
    "been": "be",
    "did": "do",
    "done": "do",
}
IRREGULAR |= {
    "does": "do",
    "has": "have",
    "lying": "lie",
    "dying": "die",
    "tying": "tie",
    "dies": "die",
    "lies": "lie",
    "ties": "tie",
}
"""Past tenses and participles -> their verb."""

_PAST = frozenset(past for _, past, _ in _PARTS if not past.endswith("ed"))
_ALSO_NOUNS = frozenset(
    "beat bit bore bound broadcast drove felt found fell ground left light lit lay rose saw shot spoke stuck thought wound".split()  # noqa: SIM905
)
"""Past tenses that are other words as well; they count as verbs only where a sentence has no other."""

COMMON = frozenset(base for base, *_ in _PARTS) | frozenset(
    """
    accept add agree aim allow analyse analyze answer apply approve archive argue arrive ask assume attach avoid back bake believe
    benchmark block book borrow bump call cancel change charge check clean clear click clone close code collect comment commit
    compare compile complain configure confirm connect consider contain continue convert cook copy correct count cover crash create
    cut debug decide decline define delete deliver depend deploy describe design destroy disable discuss document download drop
    edit enable encrypt end enjoy ensure enter escape estimate exclude expect explain export extend extract fail fetch fill filter
    finish fix focus follow force format generate handle hate help host ignore implement import improve include increase index
    insert install invite join jump kill label last like limit link list live load lock log look love maintain manage mark measure
    mention merge migrate mix mock monitor mount move name need note notice open order organise organize own pack parse pass paste
    patch pick pin ping plan plant play point post prefer prepare press prevent print process promise propose protect publish pull
    push put quote raise read rebase receive recommend record reduce refactor refuse reject release rely remember remind remove
    rename render repeat replace reply report require reset resolve respond restart restore retry return reuse review revert roll
    rotate save scan schedule search select serve set share ship sign skip solve sort split squash stage start stay stop store
    submit suggest support swap switch sync talk test thank tick track train translate travel trigger trust try turn type update
    upgrade upload use validate verify visit wait walk want warn wash watch wish work worry wrap
    """.split()  # noqa: SIM905
)
"""Verbs that may open a sentence: "Ask Priya", "Reads the notes first"."""

_NEVER_NOUNS = frozenset(
    """
    accept agree allow ask avoid become begin believe belong bring buy choose deliver depend deploy describe destroy disable discuss
    dislike eat enable enjoy ensure expect explain extend forget get give go happen hate hear hold ignore improve include keep know
    learn live lose maintain make manage mean meet merge migrate overheat own parse pay prefer prevent propose protect read receive
    refuse reject remember remove rename render replace require resolve respond restore reuse say seek sell send serve sing sit solve
    speak stand submit suggest take teach tell thank think translate understand validate verify want wear write
    """.split()  # noqa: SIM905
)
"""Verbs whose form in -s is hardly ever a plural."""

_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
_KEPT_DOUBLE = ("ll", "ss", "ff", "zz")
_SHORT_STEM = re.compile(r"^(?:[^aeiou]|qu)*[aeiouy][^aeiouwxy]$")
_NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_PLACING = frozenset({"in", "on", "at", "to", "with", "into", "from"})
_OBJECTS = frozenset({"DET", "PRON", "PROPN", "NOUN", "ADJ", "NUM", "ADV", "ADP", "PART", "PUNCT", "SCONJ", "CCONJ"})
FINITE_TAGS = frozenset({"VBD", "VBZ", "VBP", "MD"})
_BASES_THEMSELVES = frozenset({"found", "lay", "saw", "fell", "ground", "bore"})


def mend_verbs(doc: "Doc", opaque: AbstractSet[int]) -> None:
    """Mend, in place, the part of speech and the lemma of verbs where spelling and place know better than the tagger.

    Args:
        doc: A tagged text.
        opaque: Positions of tokens that stand for something that is no prose.
    """
    for sentence in doc.sents:
        has_verb = any(token.tag_ in FINITE_TAGS for token in sentence)
        for token in sentence:
            if token.i in opaque or not token.is_alpha:
                continue
            opens = token.i == sentence.start
            if token.pos_ in {"VERB", "AUX"}:
                if opens and _opens_as_noun(token):
                    token.pos_, token.tag_ = "NOUN", "NN"
            elif (
                _is_past(token, has_verb)
                or _is_past_after_name(token, has_verb)
                or _is_present(token, has_verb)
                or (opens and _opens_as_verb(token, opaque))
            ):
                token.pos_, token.dep_ = "VERB", "dep"
                token.tag_ = (
                    "VBD"
                    if token.lower_ in _PAST or token.lower_.endswith("ed")
                    else "VBZ"
                    if _third_person(token.lower_)
                    else "VB"
                )
                has_verb = True
            if token.pos_ == "VERB":
                token.lemma_ = base_form(token.lower_, token.lemma_.lower(), token.tag_)
                if token.tag_ == "VBZ" and token.lemma_ in _NEVER_NOUNS and _is_followed_by_verb(token):
                    token.dep_ = "dep"  # "Reads release notes": of two verbs in a row one is the object
                    token.nbor().pos_, token.nbor().tag_ = "NOUN", "NN"


def base_form(form: str, guess: str, tag: str) -> str:
    """The infinitive of a lower-case verb form.

    `guess` is what the pipeline's lemmatizer says, kept where spelling allows it; `tag` is the form's Penn tag.
    """
    if form in IRREGULAR and not (form in _BASES_THEMSELVES and tag in {"VB", "VBP"}):
        return IRREGULAR[form]
    for suffix in ("ing", "ed"):
        if form.endswith(suffix) and len(form) > len(suffix) + 2 and tag not in {"VB", "VBP", "VBZ"}:
            return _without(form, suffix, guess)
    if tag == "VBZ" and (guess == form or not form.startswith(guess[:-1])):
        return _third_person(form) or guess
    return guess


def _without(form: str, suffix: str, guess: str) -> str:
    stem = form.removesuffix(suffix)
    if suffix == "ed" and stem.endswith("i"):
        return f"{stem[:-1]}y"
    if _DOUBLED.search(stem) and len(stem) > 3 and not stem.endswith(_KEPT_DOUBLE):
        return stem[:-1]
    if _SHORT_STEM.search(stem):
        return f"{stem}e"
    if guess in {stem, f"{stem}e"} or (len(stem) > 3 and _DOUBLED.search(stem) and guess == stem[:-1]):
        return guess
    return f"{stem}e" if stem.endswith(("c", "v", "s", "z", "u", "at", "bl", "dg", "ng")) and not stem.endswith("ss") else stem


def _third_person(form: str) -> str | None:
    """The infinitive of a form in -s, None for any other."""
    if not form.endswith("s") or form.endswith(("ss", "us", "is")) or len(form) < 4:
        return None
    if form.endswith("ies"):
        return f"{form[:-3]}y"
    return form[:-2] if form.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else form[:-1]


def _is_past(token: "Token", has_verb: bool) -> bool:
    """Whether an irregular past tense that was tagged as something else stands where a verb does."""
    if token.lower_ not in _PAST or not token.is_lower or token.i == 0:
        return False
    before = token.nbor(-1)
    after = token.nbor() if token.i + 1 < len(token.doc) else None
    if before.pos_ not in _NOMINAL | {"ADV", "CCONJ", "PART"} or before.tag_ in {"PRP$", "WP$", "POS"}:
        return False
    if token.lower_ in _ALSO_NOUNS:
        return (
            not has_verb and before.pos_ in _NOMINAL and (after is None or after.pos_ in {"DET", "PRON", "PUNCT", "ADV", "PART"})
        )
    return after is None or after.pos_ in _OBJECTS


def _is_present(token: "Token", has_verb: bool) -> bool:
    """Whether a form in -s that was tagged as a plural is the verb its sentence lacks ("the user prefers tabs")."""
    base = _third_person(token.lower_)
    if not token.is_lower or token.i == 0 or base not in COMMON | _NEVER_NOUNS or token.nbor(-1).pos_ not in _NOMINAL | {"ADV"}:
        return False
    if base in _NEVER_NOUNS:
        return not has_verb or _is_followed_by_verb(token)
    return not has_verb and token.i + 1 < len(token.doc) and token.nbor().lower_ in _PLACING


def _is_past_after_name(token: "Token", has_verb: bool) -> bool:
    """Whether a regular past tense stands between a name and what was done to it: "Oona baked bread"."""
    if has_verb or not token.is_lower or not token.lower_.endswith("ed") or token.i == 0 or token.i + 1 == len(token.doc):
        return False
    return token.nbor(-1).pos_ in {"PROPN", "PRON"} and token.nbor().pos_ in _NOMINAL | {"DET", "ADP", "NUM"}


def _is_followed_by_verb(token: "Token") -> bool:
    return token.i + 1 < len(token.doc) and token.nbor().pos_ == "VERB" and token.nbor().tag_ in {"VBZ", "VBP", "VB", "NNS"}


def _opens_as_verb(token: "Token", opaque: AbstractSet[int]) -> bool:
    """Whether a sentence's first word, tagged as a noun, is an imperative ("Ask Priya") or lacks its subject ("Reads a book")."""
    base = token.lower_ if token.lower_ in COMMON else _third_person(token.lower_)
    if base not in COMMON | _NEVER_NOUNS or token.i + 1 == len(token.doc) or token.is_upper:
        return False
    after = token.nbor()
    if after.i in opaque or (token.lower_ != base and base in _NEVER_NOUNS and after.pos_ not in {"AUX", "PUNCT"}):
        return True
    is_object = after.pos_ in {"DET", "PROPN", "PRON"} and after.tag_ not in {"WP", "WDT"}
    return is_object and (token.lower_ != base or not after.is_upper)


def _opens_as_noun(token: "Token") -> bool:
    """Whether a sentence's first word is the subject of the verb that follows it ("Dates live in ...", "Click is used")."""
    if token.tag_ not in {"VBZ", "VB", "VBP"} or token.i + 1 == len(token.doc):
        return False
    after = token.nbor()
    if (
        token.tag_ == "VBZ"
        and _third_person(token.lower_) not in _NEVER_NOUNS
        and after.pos_ == "VERB"
        and after.tag_ in {"VBP", "VBD", "VB"}
    ):
        return True
    return after.pos_ == "AUX" and after.tag_ in FINITE_TAGS and token.pos_ == "VERB"
