"""Copies of the `memories` table in the memory of a long-running process. The table on disk remains authoritative."""
