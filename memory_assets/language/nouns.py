"""English nouns to their singular form, by rule and exception, without a language model.

Tags are compared by equality, so that their base form must not depend on a sentence, a pipeline or its
version. The rules are the regular plural spellings of English; the exceptions are the irregular plurals, the
words that only look like plurals, and names. A word the rules do not know for certain stays as it is.
"""

_IRREGULAR = {
    "people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse", "geese": "goose",
    "feet": "foot", "teeth": "tooth", "oxen": "ox", "lice": "louse", "dice": "die", "indices": "index",
    "vertices": "vertex", "matrices": "matrix", "appendices": "appendix", "vortices": "vortex", "criteria": "criterion",
    "phenomena": "phenomenon", "lives": "life", "wives": "wife", "knives": "knife", "leaves": "leaf", "wolves": "wolf",
    "shelves": "shelf", "halves": "half", "selves": "self", "calves": "calf", "loaves": "loaf", "thieves": "thief",
    "scarves": "scarf", "elves": "elf", "hooves": "hoof", "axes": "axis", "analyses": "analysis",
    "hypotheses": "hypothesis", "theses": "thesis", "crises": "crisis", "bases": "base", "parentheses": "parenthesis",
    "diagnoses": "diagnosis", "syntheses": "synthesis", "oases": "oasis", "emphases": "emphasis", "ellipses": "ellipsis",
    "quizzes": "quiz", "buses": "bus", "gases": "gas", "biases": "bias", "aliases": "alias", "canvases": "canvas",
    "atlases": "atlas", "lenses": "lens", "statuses": "status", "viruses": "virus", "bonuses": "bonus",
    "campuses": "campus", "focuses": "focus", "caucuses": "caucus", "menus": "menu", "gpus": "gpu", "cpus": "cpu",
    "tpus": "tpu", "gurus": "guru", "emus": "emu", "movies": "movie", "cookies": "cookie", "ties": "tie", "pies": "pie",
    "lies": "lie", "dies": "die", "zombies": "zombie", "selfies": "selfie", "rookies": "rookie", "calories": "calorie",
    "heroes": "hero", "potatoes": "potato", "tomatoes": "tomato", "echoes": "echo", "vetoes": "veto", "torpedoes": "torpedo",
    "embargoes": "embargo", "caches": "cache", "aches": "ache", "headaches": "headache", "niches": "niche",
    "avalanches": "avalanche", "apis": "api", "uris": "uri", "clis": "cli", "guis": "gui", "wikis": "wiki", "taxis": "taxi",
    "skis": "ski", "emojis": "emoji", "dbs": "db",
    "ads": "ad", "vms": "vm", "prs": "pr", "ids": "id", "pcs": "pc", "ais": "ai",
    "uis": "ui", "pis": "pi", "kpis": "kpi", "rois": "roi", "axles": "axle",
}  # fmt: skip

_INVARIANT = frozenset(
    # Singular or uncountable words and names that end in a lone s, and are no plural of what is left without it.
    """
    news series species means lens canvas atlas alias bias gas christmas mathematics physics economics
    politics ethics athletics linguistics statistics logistics analytics graphics metaphysics robotics
    genetics semantics mechanics electronics basics specifics informatics bioinformatics kinetics optics
    acoustics aesthetics mnemonics diabetes rabies herpes chaos kudos cosmos ethos pathos asbestos thermos
    rhinoceros headquarters crossroads gallows barracks shambles thanks pants jeans shorts trousers
    scissors goods always perhaps besides sometimes afterwards towards whereas does has was this its yes
    plus versus devops devsecops mlops gitops dataops finops aiops llmops ops macos watchos tvos ipados
    centos nixos chromeos freertos qos ddos dos axios helios argos windows kubernetes redis postgres
    pandas jenkins keras rails sass less aws dns ios css js ts tls https sas nas saas paas iaas faas caas
    baas gps rss cors corps sos bios os as is us vs ros ross emacs jas cypress keynote kansas texas dallas
    vegas arkansas athens brussels naples wales netherlands philippines honduras bahamas maldives barbados
    cyclades angeles vilnius alps andes himalayas james charles thomas lucas nicholas jonas elias tobias
    matthias mathias andreas douglas silas barnabas judas midas ananias jeremias josias zacharias hans
    lars niels nils jens mats fuchs agnes frances dolores mercedes lourdes ines ulises jules miles giles
    moses andres carlos marcos santos ramos barros campos nikos stavros yannis wes les hughes jones
    williams davis adams evans edwards roberts phillips collins stevens rogers perkins hopkins dickens
    watkins hawkins higgins wilkins simmons simons lyons gibbons owens stephens matthews andrews peters
    hicks sanders saunders meyers myers walters cummings jennings hastings rawlings huygens mertens
    martens hermes zeus ares clothes regards whereabouts binoculars pyjamas outdoors congratulations bayes
    forbes sykes knowles hercules aries pancreas triceps forceps orleans molasses atkins johannes leonidas
    nicolas
    """.split()  # noqa: SIM905
)


_COUNTABLE_IC = frozenset(
    """
    antibiotics characteristics clerics clinics comics critics epics fabrics generics heuristics lyrics metrics mosaics
    picnics relics republics tactics topics
    """.split()  # noqa: SIM905
)
"""Plurals in -ics; the other words in -ics are fields of knowledge or uncountable."""
_SINGULAR_MEN = frozenset({"specimen", "regimen", "abdomen", "acumen", "omen", "amen", "yemen", "semen", "stamen", "ramen"})


def singular(word: str) -> str:
    """The singular of one lower-case English noun, the word itself where it is no plural.

    The result is a fixed point: `singular(singular(word)) == singular(word)`. Words of up to three letters
    stay, save for a few listed abbreviations, and so does every word that is not spelt with the letters a to
    z alone.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _INVARIANT or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("children"):
        return word.removesuffix("ren")
    if word.endswith("men") and word not in _SINGULAR_MEN:
        return word.removesuffix("en") + "an"
    if word.endswith("ics"):
        return word[:-1] if word in _COUNTABLE_IC else word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
