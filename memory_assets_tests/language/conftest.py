"""Fixtures shared by the language tests."""

import pytest

from memory_assets.language.pipeline import Analyzer, open_analyzer
from memory_assets_tests.conftest import COMPUTED


@pytest.fixture(autouse=True)
def _computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in COMPUTED:
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)


@pytest.fixture(scope="session")
def analyzer() -> Analyzer:
    return open_analyzer()
