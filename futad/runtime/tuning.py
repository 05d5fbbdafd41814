"""Thresholds for this machine: found by `futad tune` (`testing/tuner.py`), kept on disk, used when the program runs.

They are in `tuned/DEVICE.json` of the cache folder, by what a program's kernels and host code are, so that a changed
program goes back to the device's own until it is tuned again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from futad import cache
from futad.errors import FileError, file_error
from futad.runtime.device import Thresholds


def store_path(model: str) -> Path:
    """The file of a device's thresholds.  Raises FileError if the cache cannot be used."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-").lower() or "device"
    folder = cache.folder("tuned")
    if folder is None:
        raise FileError(f"the cache folder {cache.cache_dir()} cannot be used for thresholds")
    return folder / f"{name}.json"


def read_store(model: str) -> dict[str, Any]:
    """What is kept for a device, by program; empty if there is nothing, or nothing whole."""
    try:
        raw = cache.read_own(store_path(model))
        programs = json.loads(raw)["programs"] if raw is not None else {}
    except (FileError, ValueError, KeyError, TypeError):
        return {}
    return programs if isinstance(programs, dict) else {}


def stored(model: str, key: str) -> Thresholds | None:
    """The thresholds of a program, None if it was not tuned on this device."""
    kept: Any = read_store(model).get(key)
    try:
        values = [int(kept["thresholds"][name]) for name in Thresholds._fields]
    except (KeyError, TypeError, ValueError):
        return None
    return Thresholds(*values)


def store(model: str, key: str, thresholds: Thresholds | None, about: dict[str, Any]) -> Path:
    """Keep a program's thresholds, or with None forget them.  Raises FileError."""
    programs = read_store(model)
    programs.pop(key, None)
    if thresholds is not None:
        programs[key] = {"thresholds": thresholds._asdict(), **about}
    path = store_path(model)
    text = json.dumps({"device": model, "programs": programs}, indent=1) + "\n"
    try:
        cache.replace_file(path, text.encode())
    except OSError as e:
        raise file_error("write", path, e) from None
    return path
