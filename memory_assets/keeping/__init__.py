"""Safe keeping: verified backups of a tenant, the way back from them, and texts that are gone for good."""
