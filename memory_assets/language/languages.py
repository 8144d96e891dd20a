"""Which language a sentence is written in, and what can be told of one that the pipeline cannot read.

A vote of function words, because notes are short, full of names and mostly English: a sentence is English until its words say
otherwise. Statistical detectors (py3langid, lingua) were not taken: they give every fragment ("DuckDB lock") some language, and
bring megabytes. Scripts other than Latin are told by their letters.
"""

import re
from collections import Counter
from collections.abc import Iterator

from memory_assets.language.tags import normalise_tag

ENGLISH = "en"

_FUNCTION_WORDS = {
    "en": """
        the a an and or not is are was were be been has have had do does did will would can could should must may this that these
        those it its they we you he she i my our your his her their to of for from with by at into as if when than then there
        which who what how because but so no never always only all each every in on about after before over up out off down just
        also more some any other than through between very here now one two""",
    "de": """
        der die das und ist nicht mit ein eine einen einem einer dem den des für auf von zu zum zur im wird wurde werden wurden sind
        auch aber oder wenn dass daß wir ich sie haben hatte nur noch wie bei nach aus um über immer kein keine vor durch beim vom
        als sich es er ihr mein unser bitte schon sehr alle muss müssen soll kann gilt hat""",
    "fr": """
        le la les des du une est et dans pour que qui sur avec pas ne sont nous vous ils elle il cette ces aux mais ou où comme
        par plus tout toujours jamais je ce sa ses leur être""",
    "es": """
        el la los las del una es y en para que por con no se son nosotros está están pero como más muy siempre nunca este esta lo su
        sus cuando desde hay yo mi""",
    "pt": """
        o os as do da dos das um uma é e em para que por com não se são está nós mas como mais muito sempre nunca este esta isso
        seu sua quando desde há eu meu minha no na ao pelo pela""",
    "it": """
        il lo gli della delle del dei una è e per che con non si sono di da nel nella ma come più molto sempre mai questo questa
        quando anche io mio""",
    "nl": """
        het een en van niet met voor op zijn wordt werd dat die maar ook naar bij uit als wij ik heeft hebben geen nog altijd""",
    "sv": "och att det som en ett är inte på för med av till den har om men vi jag alltid aldrig ska från",
    "da": "og at det som en et er ikke på for med af til den har om men vi jeg altid aldrig skal fra",
    "pl": "nie się jest na że do są dla jak ale przez od lub oraz tylko zawsze nigdy który która to",
    "cs": "se je na že do jsou pro jak ale přes od nebo jen vždy nikdy který která není",
    "tr": "ve bir bu için ile değil olarak daha çok ama gibi her ben biz",
    "fi": "ja on ei että se ovat mutta kuin tai myös aina minä me joka",
    "hu": "az egy és nem hogy van de is vagy csak mindig ez",
}
_WORDS: dict[str, set[str]] = {}
for _code, _listed in _FUNCTION_WORDS.items():
    for _each in _listed.split():
        _WORDS.setdefault(_each, set()).add(_code)
_SHORT = 8
"""Words of a sentence that a single function word may decide."""
_SCRIPTS = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7af\u1100-\u11ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002ebef]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "und": re.compile(r"[\u0530-\u10ff\u1200-\u1cff\u0590-\u08ff]"),
}
"""Letters of a script -> the language that is meant; "und" is any that is only read as words."""
_LATIN = re.compile(r"[^\W\d_]")
_NAME = re.compile(r"[A-Z][^\W\d_]+ (?:(?:van|von|de|der|den|del|di|da|la|le|al|el|dos) )+(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")

_KANJI_OR_KATAKANA = re.compile(r"[\u4e00-\u9fff々]{2,6}|[\u30a1-\u30f6ー]{3,}")
_CHINESE_SMALL_WORDS = re.compile(
    r"我们|你们|他们|她们|它们|这个|那个|这些|那些|因为|所以|但是|如果|没有|不要|需要|应该|可以|可能|已经|还是|或者|以及|并且|"
    r"什么|怎么|为了|之前|之后|时候|现在|总是|从不|使用|决定|通过|进行|[的了在是和我你他她它这那有不也就都而及着或被把对从到为以于之吗呢吧啊与等让给很要能将请]"
)
_HAN = re.compile(r"[\u4e00-\u9fff]{2,6}")
_HANGUL = re.compile(r"[\uac00-\ud7af]{2,}")
_KOREAN_PARTICLE = re.compile(
    r"(?<=..)(?:에서는|에게서|으로는|까지는|부터는|에서|에게|한테|께서|으로|까지|부터|처럼|보다|마다|이나|이라|라는|은|는|이|가|을|를|에|의|로|와|과|도|만)$"
)
_KOREAN_VERB = re.compile(
    r"(?:니다|세요|어요|아요|했다|한다|된다|하다|되다|않다|있다|없다|하고|해서|하지|하게|하는|되는|되어|했음|않음|있음|없음)$"
)


def recognise(text: str) -> str | None:
    """The ISO 639 code of the language of `text`, None where its words do not tell."""
    letters = len(_LATIN.findall(text))
    for code, script in _SCRIPTS.items():
        count = len(script.findall(text))
        if count and (count * 2 > letters or (code == "ja" and count * 5 > letters and not re.search(r"[A-Za-z]{3}", text))):
            return code
        if code == "ja" and count and len(_SCRIPTS["zh"].findall(text)) + count > letters / 2:
            return "ja"
    votes: Counter[str] = Counter()
    words = _WORD.findall(_NAME.sub("", text))
    for word in words:
        votes.update(_WORDS.get(word.lower(), ()))
    if not votes:
        return None
    code, most = max(votes.items(), key=lambda vote: vote[1])
    if most <= votes[ENGLISH]:
        return ENGLISH
    if most > 1 and most >= 2 * votes[ENGLISH]:
        return code
    alone = next((word for word in words if code in _WORDS.get(word.lower(), ())), "")
    is_clear = most == 1 and not votes[ENGLISH] and alone.islower() and len(alone) > 2
    return code if is_clear and 2 < len(words) <= _SHORT else None


def words_of(text: str, language: str) -> Iterator[str]:
    """Tags of a text in a language that the pipeline does not read: its telling words as they stand, the most frequent first.

    German writes its nouns with a capital, and they come before other words. Of Japanese the words in kanji and katakana are
    taken, of Chinese what stands between the small words, of Korean words without their particles.
    """
    found: Counter[str] = Counter()
    for word in _candidates(text, language):
        if tag := normalise_tag(word, inflect=False):
            found[tag] += 1
    for tag, _ in found.most_common():
        yield tag


def _candidates(text: str, language: str) -> Iterator[str]:
    if language == "ja":
        yield from _KANJI_OR_KATAKANA.findall(text)
    elif language == "zh":
        for piece in _CHINESE_SMALL_WORDS.split(text):
            yield from _HAN.findall(piece)
    elif language == "ko":
        for word in _HANGUL.findall(text):
            if not _KOREAN_VERB.search(word):
                yield _KOREAN_PARTICLE.sub("", word)
    else:
        words = [word for word in _WORD.findall(text) if len(word) > 3 and language not in _WORDS.get(word.lower(), ())]
        if language == "de":
            words = [word for word in words if word[0].isupper()] + [
                word for word in words if word[0].islower() and len(word) > 5
            ]
        yield from words
