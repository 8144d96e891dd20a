"""Readers of files that other programs write: Claude Code's silos, seed.json and PAI's LEARNING store.

A function that reads one file raises `RefusedFileError`, which says why and how to fix it, or FileNotFoundError. The `scan` of a
whole source raises neither: it records each refusal and continues.
"""
