"""Text to features.

`import spacy` brings spaCy's whole command line for one function, `spacy.info`, which nothing here calls: a third of its time.
"""

import sys
from types import ModuleType

if "spacy" not in sys.modules:
    _stand_in = ModuleType("spacy.cli.info")
    vars(_stand_in)["info"] = None
    sys.modules[_stand_in.__name__] = _stand_in
