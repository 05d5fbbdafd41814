"""Compiling emitted C into a shared library and loading it.

    lib = build_library('#include "prelude.h"\\nint f(int x) { return x + 1; }')
    lib.f(1)

Sources include `prelude.h` and other headers of `kernels/`.  Environment: FUTAD_CC (then CC) names the
compiler and may carry arguments; FUTAD_OPT is the level of optimisation, FUTAD_CFLAGS adds flags; FUTAD_CACHE_DIR
moves the cache; FUTAD_PROGRESS=0 says nothing of a compiler that takes long or crashes.

A compiler that crashes on a source compiles it again with less optimisation (`_with_less`).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from futad import cache
from futad.errors import BackendError, Error, InternalError, UsageError
from futad.runtime.compiler_runs import run_compiler, short_name, unfit, version_of

SHOWN = 20  # lines of what a compiler says
LEVELS = ("0", "1", "2", "3")
LLVM = "-mllvm"  # before an option of clang's that versions may lack
# Of code that is to be there soon: -O1 takes twice as long, and functions of vectors have nobody who calls them.
QUICK_FLAGS = ("-Og", "-fno-openmp-simd", "-DFUTAD_NO_LIBMVEC")
# GCC's pass that makes vectors of straight-line code: off, or there and changing nothing (see `compile_flags`).
NO_SLP = ("-fno-tree-slp-vectorize",)
IDLE_SLP = ("-ftree-slp-vectorize", "-fdbg-cnt=vect_slp:0")
# What a compiler that crashes is asked for instead, in turn.
NO_VECTORS = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-openmp-simd")
LESS = (("without vectors", NO_VECTORS), ("at -O1", (*NO_VECTORS, "-O1")), ("at -O0", (*NO_VECTORS, "-O0")))
INSTALL_HINT = (
    "`pip install 'futad[compiler]'` brings one; or install one (Debian, Ubuntu: `apt install gcc libc6-dev`; "
    "Fedora: `dnf install gcc`; macOS: "
    "`xcode-select --install`), or name it in FUTAD_CC, or use backend='interp'"
)
ZIG = (sys.executable, "-m", "ziglang", "cc")  # clang from PyPI, the extra `compiler`
CXX_HINT = (
    "install one (Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`; macOS: "
    "`xcode-select --install`), or name it in FUTAD_CXX"
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_loaded: dict[str, ctypes.CDLL] = {}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: the command that runs it and what `--version` says."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version

    @property
    def clang(self) -> int:
        """Its major version if it is clang, else 0."""
        found = re.search(r"clang version (\d+)", self.version)
        return int(found[1]) if found else 0

    @property
    def gcc(self) -> int:
        """Its major version if it is GCC, else 0."""
        found = re.findall(r"(\d+)\.\d+\.\d+", self.version.partition("\n")[0])
        return int(found[-1]) if found and "Free Software Foundation" in self.version else 0

    @property
    def is_zig(self) -> bool:
        return "zig" in " ".join(self.command)


def find_compiler() -> Compiler:
    """The compiler of FUTAD_CC, CC, or the first of cc, gcc, clang on the PATH, or that of the package ziglang.

    Raises BackendError, saying what to install, if there is none that runs.
    """
    return _find("C", os.environ.get("FUTAD_CC", ""), os.environ.get("CC", ""), os.environ.get("PATH", ""))


def find_cxx_compiler() -> Compiler:
    """The C++ compiler of FUTAD_CXX, CXX, or the first of c++, g++, clang++ on the PATH.

    Raises BackendError, saying what to install, if there is none that runs.
    """
    return _find("C++", os.environ.get("FUTAD_CXX", ""), os.environ.get("CXX", ""), os.environ.get("PATH", ""))


# For each language: the variable that names a compiler, those looked for, and what to say without one.
_LANGUAGES = {"C": ("CC", ("cc", "gcc", "clang"), INSTALL_HINT), "C++": ("CXX", ("c++", "g++", "clang++"), CXX_HINT)}


@functools.lru_cache(maxsize=16)
def _find(language: str, ours: str, usual: str, path: str) -> Compiler:
    plain, names, hint = _LANGUAGES[language]
    for variable, value in ((f"FUTAD_{plain}", ours), (plain, usual)):
        if not value.strip():
            continue
        command = _command(variable, value)
        version = _version(command)
        if version is None:
            raise BackendError(f"{variable} is {value!r}, which is not a {language} compiler that runs", hint=hint)
        return Compiler(command, version)
    for name in names:
        version = _version((name,))
        if version is not None:
            return Compiler((name,), version)
    if language == "C" and find_spec("ziglang") is not None:
        version = _version(ZIG)
        if version is not None:
            return Compiler(ZIG, version)
    raise BackendError(
        f"no {language} compiler was found (tried {names[0]}, {names[1]} and {names[2]})", hint=hint
    )


def compiler_file() -> str:
    """Which file the C compiler is, and when it was made: as long as that stays, it need not be asked for its version.

    "" if there is none.
    """
    named = [(name, os.environ.get(name, "")) for name in ("FUTAD_CC", "CC")]
    for variable, value in (*named, *[("", name) for name in _LANGUAGES["C"][1]]):
        try:
            found = shutil.which(_command(variable, value)[0]) if value.strip() else None
        except BackendError:  # which who compiles will raise
            return ""
        if found is not None:
            about = os.stat(found)
            return f"{os.path.realpath(found)} {about.st_mtime_ns} {about.st_size}"
    spec = find_spec("ziglang")
    return f"{spec.origin} {os.stat(spec.origin).st_mtime_ns}" if spec is not None and spec.origin else ""


def split(variable: str, value: str) -> tuple[str, ...]:
    """The words of a variable, as a shell has them.  Raises BackendError if a quote is not closed."""
    try:
        return tuple(shlex.split(value))
    except ValueError as e:
        raise BackendError(f"{variable} is {value!r}: {e}") from None


def _command(variable: str, value: str) -> tuple[str, ...]:
    """A compiler and its arguments; or the path of one, which may have spaces in it."""
    return (value,) if os.path.isfile(value) and os.access(value, os.X_OK) else split(variable, value)


# What a process has no more of: that says nothing of the compiler.
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


def _not_started(command: Sequence[str], e: OSError) -> BackendError:
    hint = INSTALL_HINT if e.errno not in _OUT_OF else None
    return BackendError(f"cannot run the compiler {' '.join(command)}: {e}", hint=hint)


def _version(command: Sequence[str]) -> str | None:
    if not command or shutil.which(command[0]) is None:
        return None
    try:
        return version_of(command)
    except OSError as e:
        if e.errno in _OUT_OF:
            raise _not_started(command, e) from None
        return None


def compiler_available() -> bool:
    """Whether `build_library` has a compiler to use."""
    try:
        find_compiler()
    except BackendError:
        return False
    return True


def headers() -> dict[str, str]:
    """The headers emitted code may include, by name: the files, and those made of the records of scalar operations."""
    from futad.core import scalarlib  # which imports NumPy

    return {**_files(), **scalarlib.generated()}


@functools.cache
def _files() -> dict[str, str]:
    return {f.name: f.read_text(encoding="utf-8") for f in sorted(_kernels().glob("*.h"))}


@functools.cache
def _kernels() -> Path:
    """The folder of an installed wheel, or `kernels/` of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "prelude.h").is_file():
            return folder
    raise InternalError(f"prelude.h is missing from {package}: the installation is incomplete")


def kernel_file(name: str) -> str:
    """The text of a file of `kernels/` that is compiled by itself."""
    return (_kernels() / name).read_text(encoding="utf-8")


def prelude() -> str:
    """The text of `prelude.h`."""
    return headers()["prelude.h"]


def standalone(source: str) -> str:
    """`source` with its includes of our headers replaced by their texts."""
    before = ""
    while source != before:  # headers include each other
        before = source
        for name, text in headers().items():
            source = source.replace(f'#include "{name}"', text)
    return source


def compile_flags(*, threads: bool = False, compiler: Compiler | None = None, once: bool = False) -> list[str]:
    """The flags every emitted source is compiled with (see also `link_flags`).

    `once`: nobody compiles again where the compiler crashes, so no flags that a version is known to crash with.

    Not -ffast-math: NaN, infinities and signed zeros mean what they say.  Only errno and the floating-point
    exception flags, which nobody reads, are given up.
    """
    compiler = compiler or find_compiler()
    flags = [
        "-std=gnu11",
        f"-O{_level()}",
        "-march=native",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fopenmp-simd",
        "-w",
    ]
    if platform.machine() in ("x86_64", "AMD64"):
        # Compilers tuned for the first AVX-512 processors stop at 256 bits; dot products and rank-one updates
        # run 1.5 to 2 times as fast with 512 where there are such, and nothing changes elsewhere.
        flags.append("-mprefer-vector-width=512")
    if threads:
        flags.append("-pthread")
    if not compiler.is_clang:
        # GCC 12.2 at -O3 loses a store that it has made one vector of with others, and so a gradient is wrong: no
        # vectors of straight-line code (loops are vectorised as before).  Later versions forward stores to loads in
        # unrolled loops only if that pass runs (gradient of `llsq.fut`: 124 to 98 us), so it runs and changes nothing.
        # GCC 13 crashes so on one program in a hundred: on an innermost loop with branches that is not vectorised and
        # stores side by side.  Such a source is compiled again without the pass.
        flags += IDLE_SLP if compiler.gcc in ((11, 12, 14, 15) if once else range(11, 16)) else NO_SLP
    if 10 <= compiler.gcc <= 12 and re.search(r"^model name.*AMD", cpu(), re.MULTILINE) and "avx512f" in cpu():
        # Gathers of eight elements take twice as long there as eight reads, as later versions know: a barrier option's
        # value 5.1 to 2.5 ms (`benchmarks/everyday.py --only barrier`).
        flags.append("-mtune-ctrl=^use_gather")
    if compiler.is_clang and _has_libmvec():
        # See kernels/clang_vectors.h, which has the same condition.
        flags.append(f"-fveclib={'AMDLIBM' if compiler.clang >= 19 and _glibc() >= (2, 35) else 'libmvec'}")
    if compiler.is_clang:
        # Else loops that read at a stride, rows of a matrix say, are vectorised for a stride of 1 alone.
        flags += [LLVM, "-enable-mem-access-versioning=false"]
    if compiler.is_zig:
        flags.append("-fno-sanitize=undefined")  # which it does by itself where little is optimised
    return flags


def _level() -> str:
    level = os.environ.get("FUTAD_OPT") or "3"
    if level not in LEVELS:
        raise UsageError(f"FUTAD_OPT is {level!r}, which is no level of optimisation", hint="one of 0, 1, 2 and 3")
    return level


def link_flags() -> list[str]:
    """What follows the source on the command line."""
    return ["-lmvec", "-lm"] if _has_libmvec() else ["-lm"]


def _has_libmvec() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


def _glibc() -> tuple[int, ...]:
    return tuple([int(part) for part in re.findall(r"\d+", platform.libc_ver()[1])[:2]])


@functools.cache
def cpu() -> str:
    """What -march=native depends on, as text: the model and its instruction sets."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            first = f.read(16384).split("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant", "isa")
    return "\n".join(line for line in first.splitlines() if line.startswith(wanted))


def build_library(source: str, *, threads: bool = False, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """`source` compiled to a shared library and loaded; from the cache if it was compiled before.

    `threads`: it has several threads; `flags` go last among the flags.  Raises BackendError if there is no working
    compiler, InternalError if the compiler rejects the source.
    """
    build = library(source, threads=threads, flags=flags)
    lib = _loaded.get(build.key)
    if lib is None:
        lib = _loaded[build.key] = _load(build)
    return lib


@dataclass(frozen=True, slots=True)
class Build:
    """A library that is to be built: the key under which the cache keeps it, and what the compiler is asked for."""

    key: str
    compiler: Compiler
    source: str
    options: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether it is in the cache."""
        return cache.find(self.key, ".so") is not None

    def __call__(self, out: Path) -> None:
        _compile(self.compiler, self.source, self.options, out)


def library(source: str, *, threads: bool = False, flags: Sequence[str] = ()) -> Build:
    """The library of `build_library`, which need not be built."""
    compiler = find_compiler()
    extra = [*split("FUTAD_CFLAGS", os.environ.get("FUTAD_CFLAGS", "")), *flags]
    options = (*compile_flags(threads=threads, compiler=compiler), *extra)
    key = cache.digest(
        source,
        *headers().values(),
        *options,
        *link_flags(),
        *compiler.command,
        compiler.version,
        cpu(),
        platform.platform(),
    )
    return Build(key, compiler, source, options)


def build_program(source: str, *, threads: bool = False, flags: Sequence[str] = ()) -> bytes:
    """`source`, which has a `main`, compiled to an executable: the bytes of the file.  Options and errors as of
    `build_library`."""
    compiler = find_compiler()
    extra = [*split("FUTAD_CFLAGS", os.environ.get("FUTAD_CFLAGS", "")), *flags]
    options = [*compile_flags(threads=threads, compiler=compiler), *extra]

    def build(work: Path) -> bytes:
        out = work / "program"
        _compile(compiler, source, options, out, shared=False)
        return out.read_bytes()

    return cache.in_temporary_folder(build)


def build_cxx(source: str, *, flags: Sequence[str] = (), executable: bool = False) -> Path:
    """`source`, C++ without includes of ours, compiled to a shared library or an executable; cached.

    `flags` are all the flags but those that choose the kind of output.  Raises BackendError if there is no
    working C++ compiler, InternalError if it rejects the source.
    """
    compiler = find_cxx_compiler()
    kind = [] if executable else ["-fPIC", "-shared"]
    options = [*flags, *kind]
    key = cache.digest(
        source, *options, *compiler.command, compiler.version, cpu(), platform.platform(), "c++"
    )

    def build(out: Path) -> None:
        main = out.with_name("program.cpp")
        main.write_text(source, encoding="utf-8")
        done = _run(compiler, [*options, str(main), "-o", str(out), "-lm"], out.parent)
        if done.returncode == 0:
            _check_made("C++", compiler, done, out)
            return
        _check_space(done)
        tiny = out.with_name("tiny.cpp")
        tiny.write_text("#include <utility>\nint main() { return 0; }\n")
        check = _run(compiler, [*options, str(tiny), "-o", str(out.with_name("tiny"))], out.parent)
        if check.returncode != 0:
            name = " ".join(compiler.command)
            raise BackendError(f"the C++ compiler {name} does not work:\n{_why(check)}", hint=CXX_HINT)
        raise _rejected("C++", done)

    return cache.fetch(key, "" if executable else ".so", build)


def _load(build: Build) -> ctypes.CDLL:
    path = cache.fetch(build.key, ".so", build)
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        # A cache on a file system mounted noexec, say.
        private = cache.build_privately(build.key, ".so", build)
    try:
        return ctypes.CDLL(str(private))
    except OSError as e:
        hint = "name a folder that allows it in TMPDIR or FUTAD_CACHE_DIR, or another compiler in FUTAD_CC"
        raise BackendError(f"compiled code cannot be loaded: {e}", hint=hint) from None


def _compile(compiler: Compiler, source: str, options: Sequence[str], out: Path, shared: bool = True) -> None:
    """Compiles to `out`; its folder is for temporary files.  Raises an OSError if that has no space."""
    try:
        _compile_in(compiler, source, options, out, shared)
    except OSError as e:
        if e.errno in cache.FULL:
            raise
        name = " ".join(compiler.command)
        raise BackendError(f"the C compiler {name} does not work: it left a folder in which {e}") from None


def _compile_in(compiler: Compiler, source: str, options: Sequence[str], out: Path, shared: bool) -> None:
    main = out.with_name("program.c")
    main.write_text(source, encoding="utf-8")
    for name in _included(source):
        out.with_name(name).write_text(headers()[name], encoding="utf-8")
    kind = ["-fPIC", "-shared"] if shared else []
    rest = [*kind, str(main), "-o", str(out), *link_flags()]
    done = _run(compiler, [*options, *rest], out.parent)
    if done.returncode != 0 and LLVM in options and _UNKNOWN.search(done.stderr):
        options = [x for before, x in zip(("", *options), options, strict=False) if LLVM not in (before, x)]
        done = _run(compiler, [*options, *rest], out.parent)
    if done.returncode != 0:
        _check_space(done)
        _check_works(compiler, out.parent)
        if not (_crashed(done) and _with_less(compiler, options, rest, out.parent)):
            raise _rejected("C", done)
    _check_made("C", compiler, done, out)


def _check_made(language: str, compiler: Compiler, done: subprocess.CompletedProcess[str], out: Path) -> None:
    """Raises BackendError if a compiler that says that it has succeeded has not."""
    if wrong := unfit(out):
        text = f"the {language} compiler {' '.join(compiler.command)} does not work: it {wrong}"
        said = _first_lines(done.stderr)
        raise BackendError(f"{text}:\n{said}" if said else text, hint=_LANGUAGES[language][2])


def _crashed(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether it ended by a signal, of which those that start compilers make a status of 128 and more, or says so."""
    return not 0 <= done.returncode < 128 or (done.returncode > 0 and _CRASHED.search(done.stderr) is not None)


def _with_less(compiler: Compiler, options: Sequence[str], rest: Sequence[str], work: Path) -> bool:
    """Compiles a source on which the compiler crashed with less optimisation; whether that succeeded."""
    if set(IDLE_SLP) <= set(options):
        options = [NO_SLP[0] if x == IDLE_SLP[0] else x for x in options if x != IDLE_SLP[1]]
        done = _run(compiler, [*options, *rest], work)
        if not _crashed(done):
            return done.returncode == 0
    for how, less in LESS:
        done = _run(compiler, [*options, *less, *rest], work)
        _check_space(done)
        if done.returncode == 0 and os.environ.get("FUTAD_PROGRESS") != "0":
            name = short_name(compiler.command)
            print(f"futad: {name} crashed, and compiled {how} instead; the result is kept", file=sys.stderr)
        if not _crashed(done):
            break
    return done.returncode == 0


def _included(source: str) -> set[str]:
    """The headers that a text includes, and those that these include."""
    if not _INCLUDE.search(source):
        return set()
    known = headers()
    found: set[str] = set()
    texts = [source]
    while texts:
        for name in _INCLUDE.findall(texts.pop()):
            if name in known and name not in found:
                found.add(name)
                texts.append(known[name])
    return found


def _check_works(compiler: Compiler, work: Path) -> None:
    """Raises BackendError if the compiler fails even on the smallest program, with the user's flags or without."""
    tiny = work / "tiny.c"
    tiny.write_text("#include <stdint.h>\nint64_t f(int64_t x) { return x; }\n")
    plain = ["-O0", "-fPIC", "-shared", str(tiny), "-o", str(work / "tiny.so")]
    name = " ".join(compiler.command)
    done = _run(compiler, plain, work)
    if done.returncode != 0:
        _check_space(done)
        raise BackendError(f"the C compiler {name} does not work:\n{_why(done)}", hint=INSTALL_HINT)
    own = split("FUTAD_CFLAGS", os.environ.get("FUTAD_CFLAGS", ""))
    done = _run(compiler, [*own, *plain], work)
    if done.returncode != 0:
        _check_space(done)
        raise BackendError(f"the C compiler {name} rejects the flags in FUTAD_CFLAGS:\n{_why(done)}")


# What compilers, assemblers and linkers say, in the language that `_run` asks for.
_NO_SPACE = {
    errno.ENOSPC: re.compile("no space left on device|disk full", re.IGNORECASE),
    errno.EDQUOT: re.compile("disk quota exceeded", re.IGNORECASE),
    errno.EFBIG: re.compile("file too large|file size limit exceeded", re.IGNORECASE),
}
_UNKNOWN = re.compile("unknown command line argument", re.IGNORECASE)  # of LLVM
_CRASHED = re.compile(
    "internal compiler error|submit a( full)? bug report|signal terminated program|failed due to signal", re.IGNORECASE
)
_KILLED = re.compile("killed|out of memory|cannot allocate memory|virtual memory exhausted", re.IGNORECASE)


def _check_space(done: subprocess.CompletedProcess[str]) -> None:
    """Raises an OSError if a compiler failed because the disk is full."""
    for number, text in _NO_SPACE.items():
        if text.search(done.stderr) or (number == errno.EFBIG and done.returncode == -signal.SIGXFSZ):
            raise OSError(number, os.strerror(number))


def _rejected(language: str, done: subprocess.CompletedProcess[str]) -> Error:
    """The error of a compiler that works, but not on our source."""
    if done.returncode < 0 or _KILLED.search(done.stderr):
        return BackendError(
            f"the {language} compiler was stopped:\n{_why(done)}",
            hint="it may have had too little memory",
        )
    if _crashed(done):
        return BackendError(
            f"the {language} compiler crashed on the generated code:\n{_why(done)}",
            hint="another version of it may not, or another compiler, in FUTAD_CC",
        )
    return InternalError(
        f"the {language} compiler rejected the generated code:\n{_why(done)}",
        hint="this is a defect of futad; please report it with the program",
    )


def _run(compiler: Compiler, arguments: Sequence[str], work: Path) -> subprocess.CompletedProcess[str]:
    try:
        return run_compiler([*compiler.command, *arguments], work)
    except OSError as e:
        raise _not_started(compiler.command, e) from None


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """What a compiler that failed says, or else how it ended."""
    end = f"by signal {-done.returncode}" if done.returncode < 0 else f"with status {done.returncode}"
    return _first_lines(done.stderr) or f"it ended {end}"


def _first_lines(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(lines[:SHOWN] + (["..."] if len(lines) > SHOWN else []))
