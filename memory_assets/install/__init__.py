"""Install the memory into assistants.

ConflictError: the folder holds other files, or the user's settings are not JSON; nothing was changed.
"""
