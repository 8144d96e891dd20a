"""LanceDB without the REST client that it imports."""

import ast
import subprocess
import sys
from pathlib import Path

import memory_assets

SESSION = """
import sys
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.stores.deferred import CLIENT, import_lancedb
from memory_assets.tenants import Tenant
lancedb = import_lancedb()
clients = lambda: len([name for name in sys.modules if name.startswith(CLIENT)])
before = clients()
database = lancedb.connect(sys.argv[1])
database.create_table("notes", [{"id": 1}])
assert len(database.open_table("notes").search().to_list()) == 1
assert clients() == before < 20, before
"""


def test_the_client_is_not_imported(tmp_path: object) -> None:
    done = subprocess.run([sys.executable, "-c", SESSION, str(tmp_path)], check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_lancedb_is_imported_by_one_road_that_lets_one_thread_at_a_time() -> None:
    """Its modules import each other, so a thread that starts elsewhere finds a partially imported module."""
    root = Path(memory_assets.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        for node in ast.walk(_without_type_checking(ast.parse(path.read_text(encoding="utf-8"))))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(
            name.partition(".")[0] == "lancedb"
            for name in (getattr(node, "module", None) or "", *(each.name for each in node.names))
        )
    ]
    assert found == []


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [each for each in tree.body if not (isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING")]
    return tree
