"""Tana integration: a typed client of its Local API, and the mirror of pai-seed's learnings (seed 000).

Besides Tana's errors (`errors.py`), functions raise InvalidInputError if seed.json cannot be read or belongs to another tenant,
SettingsError if pai-seed's configuration is invalid, and StoreError if the mapping, the record or the catalog fails.
"""
