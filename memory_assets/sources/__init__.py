"""Reads what others write: Claude Code's silos, seed.json, PAI's LEARNING store.

A file, or a part of one, that cannot be taken in raises `RefusedFileError`, which says why and what mends it; where there is nothing,
FileNotFoundError. A reader of a whole source raises neither: it records the refusal and goes on.
"""
