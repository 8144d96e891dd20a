"""What several tests of the language room need."""

import pytest
from hypothesis import settings

from memory_assets.language.pipeline import Analyzer, open_analyzer

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture(scope="session")
def analyzer() -> Analyzer:
    return open_analyzer()
