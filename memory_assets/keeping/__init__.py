"""Backup, restore and erasure of tenants. After a failure the tenant and earlier backups are intact, and the call can be repeated."""
