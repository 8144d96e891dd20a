"""Fixtures of the recall tests: small real stores whose neighbourhoods context reads."""

from memory_assets_tests.recall.conftest import connect, mention, remember, tenant

__all__ = ["connect", "mention", "remember", "tenant"]
