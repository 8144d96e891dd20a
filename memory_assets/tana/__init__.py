"""Tana integration: a typed client of its Local API, and the mirror of pai-seed's learnings (seed 000)."""
