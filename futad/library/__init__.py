"""The library that ships with futad: `import "futad/NAME"` reads `NAME.fut` of this folder, unless there is a file
`futad/NAME.fut` beside the one that imports it.

Messages call it `<futad>/NAME.fut`, which is the name of no other file, and the same on all machines.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
SHOWN = "<futad>"
PREFIX = "futad/"


def names() -> list[str]:
    """What there is to import."""
    return [PREFIX + p.stem for p in sorted(HERE.glob("*.fut"))]


def shown(path: str) -> str:
    """What messages call the file that `import "futad/NAME"` reads; `path` is `futad/NAME`."""
    return f"{SHOWN}/{path.removeprefix(PREFIX)}.fut"


def place(path: Path) -> Path:
    """Where a file is that messages call `path`."""
    return HERE / path.name if path.parts[:-1] == (SHOWN,) else path


__all__ = ["HERE", "PREFIX", "SHOWN", "names", "place", "shown"]
