"""Tana: its Local API as a typed client, and pai-seed's learnings mirrored there (seed 000)."""
