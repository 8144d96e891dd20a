"""Puts off the REST client that LanceDB imports and this project never needs: half of the time of `import lancedb`.

`lancedb` 0.40 imports `lance_namespace_urllib3_client`, some 400 generated modules for databases behind a REST catalog, to name a few of
its models in annotations. Until one of them is made, stand-ins carry these names; then the client itself is imported.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType
from typing import Any

CLIENT = "lance_namespace_urllib3_client"
_loading = RLock()
_importing = RLock()


class _StandIn(type):
    """What a class of the client is until somebody makes one of it or asks it for something."""

    _module: str

    def __call__(cls, *given: Any, **named: Any) -> Any:
        return cls._real()(*given, **named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls._real(), name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real())

    def _real(cls) -> Any:
        with _loading:
            if _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
                for name in [name for name, module in sys.modules.items() if isinstance(module, _StandInModule)]:
                    del sys.modules[name]
            return getattr(import_module(cls._module), cls.__name__)


class _StandInModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _StandIn(name, (), {"_module": self.__name__})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] == CLIENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


_finder = _Finder()


def import_lancedb() -> Any:
    """`lancedb`, imported by one thread at a time: its modules import each other, and a second thread would meet one half made."""
    with _importing:
        if "lancedb" not in sys.modules and CLIENT not in sys.modules:
            sys.meta_path.insert(0, _finder)
        return import_module("lancedb")
