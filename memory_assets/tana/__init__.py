"""Tana: its Local API as a typed client, and pai-seed's learnings mirrored there (seed 000).

Errors besides those of Tana (`errors.py`): InvalidInputError if seed.json and Tana are another tenant's or seed.json cannot be read,
SettingsError if pai-seed's configuration cannot be used, StoreError if mapping, record or catalog cannot.
"""
