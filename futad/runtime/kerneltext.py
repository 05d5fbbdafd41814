"""The texts of `kernels/`, and CUDA sources made whole: every include of one of them replaced by its text."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from futad.core import scalarlib
from futad.errors import InternalError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*$', re.MULTILINE)
_KERNEL = re.compile(
    r"(?:__global__\s+void|\bFUTAD_KERNEL)\s+(?:__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\s*\("
)


def kernel_texts() -> dict[str, str]:
    """The files of `kernels/` by name, and those made of the records of scalar operations.

    Raises InternalError if they are not there.
    """
    return {**_files(), **scalarlib.generated()}


@functools.cache
def _files() -> dict[str, str]:
    """The files in an installed wheel, or in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "device.cuh").is_file():
            files = sorted(f for f in folder.iterdir() if f.suffix in (".h", ".cuh"))
            return {f.name: f.read_text(encoding="utf-8") for f in files}
    raise InternalError(f"device.cuh is missing from {package}: the installation is incomplete")


def expand(source: str, *, name: str = "kernels.cu") -> str:
    """`source` with each `#include "F"` of a file of `kernels/` replaced by its text, the first time it occurs.

    Line directives keep compilers naming `name` and the files.  Other includes stay as they are.
    """
    texts, seen = kernel_texts(), set[str]()

    def go(text: str, file: str) -> str:
        out, end = [f'#line 1 "{file}"\n'], 0
        for m in _INCLUDE.finditer(text):
            if m[1] not in texts:
                continue
            out.append(text[end : m.start()])
            if m[1] not in seen:
                seen.add(m[1])
                out.append(go(texts[m[1]], m[1]))
                line = text.count("\n", 0, m.end()) + 2
                out.append(f'\n#line {line} "{file}"')
            end = m.end()
        out.append(text[end:])
        return "".join(out)

    return go(source, name)


def kernel_names(source: str) -> list[str]:
    """The kernels that `source` itself defines, in order.

    A kernel is written `extern "C" __global__ void NAME(` or `FUTAD_KERNEL NAME(`, with or without launch bounds
    before the name.
    """
    return list(dict.fromkeys(_KERNEL.findall(source)))
