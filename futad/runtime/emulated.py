"""CUDA kernels run on the CPU: the CPU simulator.

    m = EmulatedModule(
        '#include "device.cuh"\\n'
        'FUTAD_KERNEL twice(int64_t n, double *x) {'
        ' int64_t i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] *= 2; }'
    )
    m.launch("twice", grid=4, block=256, args=[np.int64(1000), np.ones(1000)])

The text is compiled by the host's C++ compiler against `kernels/emulate.h`; threads are fibers.  Without a sanitizer
a launch is a call in this process.  With `sanitize="address"` or "thread" it is a process of its own, which works on
copies: every buffer is a heap block, so that an access outside one is found, and a race is one between two accesses
that no barrier orders.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from futad import forks
from futad.errors import InternalError, UsageError
from futad.runtime import cc
from futad.runtime.kerneltext import expand, kernel_names

Extent = int | Sequence[int]

_FLAGS = [
    "-std=gnu++14", "-O1", "-w", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-fno-math-errno",
    "-fno-exceptions",
]  # fmt: skip
# Calls before accesses to memory, but not the library of the thread sanitizer, which would be what they call.
_CHECKED = (
    "-DFUTAD_EMU_LOOKED_UP", "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0", "-nodefaultlibs",
    "-Wl,--no-as-needed,-lstdc++,-lm,-lc,-lgcc_s",
)  # fmt: skip
_SANITIZERS = (None, "address", "thread")


class _Library:
    """Compiled kernels in this process, and the state of the launch in progress: one at a time."""

    loaded: dict[Path, _Library] = {}

    def __init__(self, path: Path) -> None:
        self.code = ctypes.CDLL(str(path))
        self.lock = threading.Lock()
        forks.watch(self)

    @staticmethod
    def of(path: Path) -> _Library:
        """The library at a path, loaded once."""
        return _Library.loaded.get(path) or _Library.loaded.setdefault(path, _Library(path))

    def forked(self) -> None:
        """See `forks.py`."""
        if forks.is_held(self.lock):
            self.lock = threading.Lock()
            self.code.futad_emu_reset()


class _Launch(ctypes.Structure):
    """`futad_emu::Launch`."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_ulonglong),
        ("seed", ctypes.c_ulonglong),
        ("lockstep", ctypes.c_ulonglong),
    ]


@dataclass(slots=True)
class _Argument:
    """One argument: an array or a null pointer, or the bytes of a value."""

    array: np.ndarray[Any, Any] | None
    raw: bytes | None

    @property
    def size(self) -> int:
        return 8 if self.raw is None else len(self.raw)


class EmulatedModule:
    """The kernels of a CUDA text, to be launched on NumPy arrays.

    `source` may include the files of `kernels/`; its kernels are found by their head, `FUTAD_KERNEL NAME(` or
    `extern "C" __global__ void NAME(`.  `seed` (not 0) makes blocks interleave at random, the same way every
    time; None runs them in order.  `checked`: accesses are looked up
    (`kernels/check_device.h`).  Raises BackendError if there is no C++ compiler, InternalError if it rejects the text.
    """

    def __init__(
        self, source: str, *, sanitize: str | None = None, seed: int | None = None, checked: bool = False
    ) -> None:
        if sanitize not in _SANITIZERS:
            raise UsageError(f"no sanitizer {sanitize!r}: 'address', 'thread' or None")
        self.kernels = kernel_names(source)
        if not self.kernels:
            raise InternalError("the text defines no kernel")
        self.seed = seed
        self.sanitize = sanitize
        self._message = ctypes.create_string_buffer(512)
        parts = [('#include "emulate.h"\n', "device.cpp"), (source, "kernels.cu"), (self._launchers(), "launchers.cpp")]
        if checked:
            parts.insert(1, ('#include "check_device.h"\n', "checks.cpp"))
        text = "\n".join(expand(part, name=name) for part, name in parts)
        if sanitize is None:
            self._program = None
            path = cc.build_cxx(text, flags=[*_FLAGS, "-march=native", *(_CHECKED if checked else ())])
            self._library = _Library.of(path)
            self.lib = self._library.code
            self._functions = {k: getattr(self.lib, f"futad_launch_{k}") for k in self.kernels}
            self._signatures = {k: self._signature(k) for k in self.kernels}
        else:
            flags = [*_FLAGS, f"-fsanitize={sanitize}", "-g", "-fno-omit-frame-pointer"]
            self._program = cc.build_cxx(text, flags=flags, executable=True)

    def _launchers(self) -> str:
        out = []
        for k in self.kernels:
            out.append(
                f'extern "C" int futad_launch_{k}(const futad_emu::Launch *l, void **args, char *message, '
                f"size_t size) {{ return futad_emu::launch({k}, l, args, message, size); }}\n"
                f'extern "C" const long long *futad_signature_{k}() {{ return futad_emu::signature({k}); }}'
            )
        if self.sanitize:
            table = ", ".join(f"futad_launch_{k}" for k in self.kernels)
            kind = "(*futad_kernels[])(const futad_emu::Launch *, void **, char *, size_t)"
            out.append(f'static int {kind} = {{{table}}};\n#include "emulate_main.h"')
        return "\n".join(out) + "\n"

    def _signature(self, kernel: str) -> list[int]:
        """For each parameter twice its size, plus 1 for a pointer."""
        f = getattr(self.lib, f"futad_signature_{kernel}")
        f.restype = ctypes.POINTER(ctypes.c_longlong)
        table = f()
        return [table[i + 1] for i in range(table[0])]

    def launch(
        self,
        kernel: str,
        grid: Extent,
        block: Extent,
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
        *,
        seed: int | None = None,
        lockstep: bool = False,
    ) -> None:
        """Run a kernel to its end.

        `grid` and `block` are numbers or up to three of them.  `args`: arrays (of any strides: the pointer is
        that of the first element) go by pointer, NumPy scalars and 0-d records by value, None is a null pointer.
        `seed` overrides the module's; `lockstep`: all threads of a block advance by one atomic at a time.
        Under the thread sanitizer a launch has at most some 8000 threads.  Raises
        InternalError for a deadlock, a trap, arguments that do not fit, or what the sanitizer found.
        """
        if kernel not in self.kernels:
            raise InternalError(f"no kernel {kernel!r}; there are {', '.join(self.kernels)}")
        launch = _Launch()
        launch.grid[:] = _extent(grid)
        launch.block[:] = _extent(block)
        launch.dynamic_bytes = shared_bytes
        launch.seed = (self.seed if seed is None else seed) or 0
        launch.lockstep = lockstep
        arguments = [_argument(a, kernel, i) for i, a in enumerate(args)]
        if self._program is not None:
            self._run_program(self._program, kernel, launch, arguments)
        else:
            self._call(kernel, launch, arguments)

    def _call(self, kernel: str, launch: _Launch, arguments: list[_Argument]) -> None:
        signature = self._signatures[kernel]
        if len(signature) != len(arguments):
            raise InternalError(f"kernel {kernel} takes {len(signature)} arguments, not {len(arguments)}")
        holders: list[Any] = []
        for i, (code, a) in enumerate(zip(signature, arguments, strict=True)):
            if code >> 1 != a.size or (code & 1) != (a.raw is None):
                wanted = "a pointer" if code & 1 else f"a value of {code >> 1} bytes"
                given = "a pointer" if a.raw is None else f"a value of {a.size} bytes"
                raise InternalError(f"kernel {kernel}, argument {i}: {wanted} expected, {given} given")
            if a.raw is None:
                holders.append(ctypes.c_void_p(None if a.array is None else a.array.ctypes.data))
            else:
                holders.append(ctypes.create_string_buffer(a.raw, len(a.raw)))
        pointers = (ctypes.c_void_p * max(1, len(holders)))(*[ctypes.addressof(h) for h in holders])
        message = ctypes.create_string_buffer(512)
        with self._library.lock:
            failed = self._functions[kernel](ctypes.byref(launch), pointers, message, ctypes.c_size_t(512))
        if failed:
            raise InternalError(f"kernel {kernel}: {message.value.decode(errors='replace')}")

    def launch_packed(self, kernel: str, grid: Extent, block: Extent, table: int) -> None:
        """Run a kernel on arguments in memory: `table` is the address of the addresses of each, packed as the kernel
        takes them (as for CUDA's own launch).  Nothing is checked; not under a sanitizer."""
        launch = _Launch()
        launch.grid[:] = _extent(grid)
        launch.block[:] = _extent(block)
        launch.seed = self.seed or 0
        message, run = self._message, self._functions[kernel]
        with self._library.lock:
            failed = run(ctypes.byref(launch), ctypes.c_void_p(table), message, ctypes.c_size_t(len(message)))
        if failed:
            raise InternalError(f"kernel {kernel}: {message.value.decode(errors='replace')}")

    def sizes(self, kernel: str) -> list[tuple[int, bool]]:
        """For each parameter its size in bytes, and whether it is a pointer; not under a sanitizer."""
        return [(code >> 1, bool(code & 1)) for code in self._signatures[kernel]]

    def _run_program(self, program: Path, kernel: str, launch: _Launch, arguments: list[_Argument]) -> None:
        buffers: list[np.ndarray[Any, Any]] = []
        places: list[tuple[int, int, int]] = []
        values = b""
        for a in arguments:
            if a.raw is not None:
                values += bytes(-len(values) % 16)
                places.append((0, len(a.raw), len(values)))
                values += a.raw
            elif a.array is None:
                places.append((2, 0, 0))
            else:
                root = _root(a.array)
                same = [i for i, b in enumerate(buffers) if b is root]
                if not same:
                    buffers.append(root)
                at = same[0] if same else len(buffers) - 1
                places.append((1, at, a.array.ctypes.data - root.ctypes.data))
        words = [
            self.kernels.index(kernel), *launch.grid, *launch.block, launch.dynamic_bytes, launch.seed,
            launch.lockstep, len(buffers), *[b.nbytes for b in buffers], len(places), *[w for p in places for w in p],
            len(values),
        ]  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="futad-") as folder:
            request, reply = Path(folder) / "request", Path(folder) / "reply"
            with request.open("wb") as out:
                out.write(struct.pack(f"<{len(words)}q", *words) + values)
                for b in buffers:
                    out.write(b.tobytes())
            environment = {
                **os.environ,
                "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:exitcode=66",
                "TSAN_OPTIONS": "exitcode=66:halt_on_error=1",
            }
            command = [*_fixed_addresses(self.sanitize), str(program), str(request), str(reply)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
            if done.returncode != 0:
                raise InternalError(f"kernel {kernel}: {_report(done.stderr, done.returncode)}")
            data = reply.read_bytes()
        offset = 0
        for b in buffers:
            if b.flags.writeable:
                fresh = np.frombuffer(data, b.dtype, b.size, offset).reshape(b.shape)
                b[...] = fresh
            offset += b.nbytes


def _extent(e: Extent) -> tuple[int, int, int]:
    values = (e,) if isinstance(e, int | np.integer) else tuple(e)
    if not 1 <= len(values) <= 3 or any(v < 0 for v in values):
        raise InternalError(f"no such extent of a grid or block: {e}")
    x, y, z = (*values, 1, 1)[:3]
    return int(x), int(y), int(z)


def _argument(a: Any, kernel: str, place: int) -> _Argument:
    if a is None:
        return _Argument(None, None)
    if isinstance(a, np.ndarray):
        return _Argument(a, None)
    if isinstance(a, np.generic):
        return _Argument(None, a.tobytes())
    raise InternalError(f"kernel {kernel}, argument {place}: a NumPy array or scalar, not {type(a).__name__}")


def _root(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The contiguous array whose memory `a` is a part of."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    if not a.flags.c_contiguous:
        raise InternalError("under a sanitizer, arrays are parts of C-contiguous ones")
    return a


def _fixed_addresses(sanitize: str | None) -> list[str]:
    """The thread sanitizer of older compilers cannot live with much randomness in addresses."""
    if sanitize == "thread" and platform.system() == "Linux" and shutil.which("setarch"):
        return ["setarch", platform.machine(), "-R"]
    return []


def _report(text: str, code: int) -> str:
    """What a sanitizer says in its first report: the headline and the lines of the kernels it names."""
    lines = text.splitlines()
    start = next((i for i, s in enumerate(lines) if "ERROR: " in s or "WARNING: " in s), None)
    if start is None:
        return text.strip() or f"the process ended with code {code}"
    head = re.sub(r"^.*?(ERROR|WARNING): ", "", lines[start]).strip(" (=")
    head = re.sub(r" \(pid=\d+\)| at pc .*", "", head)
    out = [head]
    for line in lines[start + 1 :]:
        frame = re.search(r"#\d+ .*?(\w+) (?:\S*/)?(\w+\.cuh?:\d+)", line)
        if frame and f"  in {frame[1]} at {frame[2]}" not in out:
            out.append(f"  in {frame[1]} at {frame[2]}")
        elif line.startswith("SUMMARY") or len(out) > 12:
            break
    return "\n".join(out)
