"""What several tests of the language room need."""

import pytest

from memory_assets.language.pipeline import Analyzer, open_analyzer


@pytest.fixture(scope="session")
def analyzer() -> Analyzer:
    return open_analyzer()
