"""The small real stores of the tests of recall, of which context reads neighbourhoods."""

from memory_assets_tests.recall.conftest import connect, mention, remember, tenant

__all__ = ["connect", "mention", "remember", "tenant"]
