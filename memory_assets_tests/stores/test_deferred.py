"""LanceDB without the REST client that it imports: the same answers, and the client where somebody asks for it."""

import subprocess
import sys

SESSION = """
import sys
from memory_assets.stores.deferred import CLIENT
import lancedb
clients = lambda: len([name for name in sys.modules if name.startswith(CLIENT)])
before = clients()
database = lancedb.connect(sys.argv[1])
database.create_table("notes", [{"id": 1}])
assert len(database.open_table("notes").search().to_list()) == 1
assert clients() == before < 20, before
assert database.list_tables().tables == ["notes"]
assert clients() > 100, "made by the client itself"
from lance_namespace import DescribeTableRequest, ListTablesResponse
assert isinstance(database.list_tables(), ListTablesResponse)
assert "id" in DescribeTableRequest.model_fields
assert DescribeTableRequest.from_dict({"id": ["notes"]}).id == ["notes"]
"""


def test_the_client_is_imported_when_it_is_used(tmp_path: object) -> None:
    done = subprocess.run([sys.executable, "-c", SESSION, str(tmp_path)], check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
