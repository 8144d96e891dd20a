"""Safe keeping: verified backups of a tenant, the way back from them, and texts that are gone for good.

What fails leaves the tenant and earlier backups whole, and can be run again:

    StoreError       a store or the place of the backups cannot be read or written
    DamagedError     a backup is damaged; the message names the file
    ConflictError    another process does the same, or the tenant of a restoration holds memories
    NotFoundError    there is no such backup
    SettingsError    a backup cannot be encrypted or decrypted with what the settings name
"""
