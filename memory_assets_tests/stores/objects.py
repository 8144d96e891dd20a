"""What a tenant has in object storage."""

from pyarrow import fs

from memory_assets.settings import Settings


def object_storage(settings: Settings) -> fs.S3FileSystem:
    options = settings.storage_options()
    return fs.S3FileSystem(
        access_key=options["aws_access_key_id"],
        secret_key=options["aws_secret_access_key"],
        endpoint_override=options["aws_endpoint"],
        allow_bucket_deletion=True,
    )


def objects(settings: Settings, tenant: str) -> list[str]:
    """List a tenant's objects in object storage."""
    found = fs.FileSelector(f"{(settings.vectors_uri or '')[5:]}/{tenant}", recursive=True, allow_not_found=True)
    return [each.path for each in object_storage(settings).get_file_info(found) if each.is_file]
