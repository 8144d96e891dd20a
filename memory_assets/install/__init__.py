"""Install the memory into assistants.

A ConflictError means that nothing was changed, because other files are there or the user's settings are not JSON.
"""
