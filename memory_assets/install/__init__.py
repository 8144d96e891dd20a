"""Makes the memory known to the assistants that are to use it."""
