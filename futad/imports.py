"""What is done once a package of others is there, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call `then` after the top-level package has been imported: now if it has, else when somebody imports it."""
    if sys.modules.get(name) is not None:
        then()
    else:
        sys.meta_path.insert(0, _Awaiting(name, then))


class _Awaiting(MetaPathFinder):
    """Finds a package as the other finders do; once its code has run, calls a function."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                if self in sys.meta_path:  # else it has been imported before
                    sys.meta_path.remove(self)
                    self.then()

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 (to mypy it is a method)
        return spec


__all__ = ["when_imported"]
