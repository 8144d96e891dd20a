"""Makes the memory known to the assistants that are to use it.

A ConflictError means that somebody else's files are there or the user's settings are not JSON, and that nothing was changed.
"""
