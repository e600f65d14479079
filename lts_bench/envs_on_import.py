"""Registers the environments once Gymnasium is imported, without importing it.

``gymnasium.make("lts_bench:lts/Shard-v0")`` imports ``lts_bench`` to have them registered, which does nothing where it
is imported already. So whichever comes second, this package or Gymnasium, has to do it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def register_with_gymnasium() -> None:
    """Register the environments now if Gymnasium is there, else as soon as somebody imports it."""
    if "gymnasium" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Watcher())


class _Watcher(MetaPathFinder):
    """Finds Gymnasium as everybody else would, once, and has the environments registered after it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                _register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def _register() -> None:
    importlib.import_module("lts_bench.envs")
