"""Text to features: analysis, embedding, secrets and the judging of statements.

`import spacy` spends a third of its time on spaCy's command line, for `spacy.info`, which nothing here calls. A stand-in avoids that.
"""

import sys
from types import ModuleType

if "spacy" not in sys.modules:
    _stand_in = ModuleType("spacy.cli.info")
    vars(_stand_in)["info"] = None
    sys.modules[_stand_in.__name__] = _stand_in
