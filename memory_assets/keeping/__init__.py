"""Backup, restore and erasure of tenants.

After a failure the tenant and earlier backups are intact, and the call can be repeated:

    StoreError       a store or the repository cannot be read or written
    DamagedError     a backup is damaged; the message names the file
    ConflictError    another process does the same, or the tenant to restore holds memories already
    NotFoundError    there is no such backup
    SettingsError    a backup cannot be encrypted or decrypted with the given settings
"""
