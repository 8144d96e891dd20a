"""Import of LanceDB without the REST client that it imports and this project never needs: half of the time of `import lancedb`.

`lancedb` 0.40 imports `lance_namespace_urllib3_client`, some 400 generated modules for databases behind a REST catalog, to annotate with
a few of its models. Empty classes replace the models, so functions that create one (`list_tables`) fail.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType
from typing import Any

CLIENT = "lance_namespace_urllib3_client"
_importing = RLock()


class _StandIns(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] == CLIENT else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = _stand_in


def _stand_in(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def import_lancedb() -> Any:
    """Import `lancedb`, one thread at a time: its modules import each other, and a second thread would see a half-made one."""
    with _importing:
        if "lancedb" not in sys.modules and CLIENT not in sys.modules:
            sys.meta_path.insert(0, _StandIns())
        return import_module("lancedb")
