"""The C compiler driver and its cache."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import futad
from futad import cache
from futad.errors import BackendError, InternalError, UsageError
from futad.runtime import cc, compiler_runs
from tests.support.needs import needs_cc, without_compilers
from tests.support.paths import ROOT

SOURCE = '#include "prelude.h"\nint answer(int x) { return futad_max_i32(x, %d); }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, and no library left in memory by another one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(folder))
    monkeypatch.setattr(cc, "_loaded", {})
    return folder


def entries(folder: Path, ext: str) -> list[Path]:
    return sorted(folder.glob(f"*/*{ext}"))


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one at each run of the compiler."""
    runs: list[int] = []
    compile_ = cc._compile

    def counted(*args: object) -> None:
        runs.append(1)
        compile_(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(cc, "_compile", counted)
    return runs


@needs_cc
def test_second_build_comes_from_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counting(monkeypatch)
    assert cc.build_library(SOURCE % 41).answer(3) == 41
    monkeypatch.setattr(cc, "_loaded", {})
    assert cc.build_library(SOURCE % 41).answer(50) == 50
    assert len(runs) == 1
    assert len(entries(own_cache, ".so")) == 1


@pytest.mark.slow
@needs_cc
def test_everything_that_matters_is_in_the_key(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counting(monkeypatch)
    cc.build_library(SOURCE % 1)
    cc.build_library(SOURCE % 2)
    cc.build_library(SOURCE % 1, flags=["-O1"])
    cc.build_library(SOURCE % 1, threads=True)
    monkeypatch.setenv("FUTAD_CFLAGS", "-DX=1")
    cc.build_library(SOURCE % 1)
    monkeypatch.delenv("FUTAD_CFLAGS")
    monkeypatch.setattr(cc, "cpu", lambda: "another one")
    cc.build_library(SOURCE % 1)
    texts = cc.headers()
    monkeypatch.setattr(cc, "headers", lambda: {**texts, "prelude.h": texts["prelude.h"] + "\n"})
    cc.build_library(SOURCE % 1)
    assert len(runs) == 7 == len(entries(own_cache, ".so"))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "no sum"])
def test_corrupt_entries_are_rebuilt(own_cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    # In another process, because a library that is loaded here keeps its file.
    code = f"from futad.runtime import cc; print(cc.build_library({SOURCE % 7!r}).answer(9))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "9\n"
    )
    (so,) = entries(own_cache, ".so")
    if damage == "truncated":
        so.write_bytes(so.read_bytes()[:5000])
    elif damage == "garbage":
        so.write_bytes(b"not a library" * 1000)
    elif damage == "empty":
        so.write_bytes(b"")
    else:
        so.with_name(f"{so.name}.sum").unlink()
    runs = counting(monkeypatch)
    assert cc.build_library(SOURCE % 7).answer(8) == 8
    assert len(runs) == 1


@needs_cc
def test_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(blocked / "cache"))
    assert cc.build_library(SOURCE % 5).answer(6) == 6


def _build(folder: str, queue: multiprocessing.Queue[int]) -> None:
    os.environ["FUTAD_CACHE_DIR"] = folder
    with pytest.MonkeyPatch.context() as patch:
        runs = counting(patch)
        assert cc.build_library(SOURCE % 13).answer(2) == 13
        queue.put(len(runs))


@pytest.mark.slow
@needs_cc
def test_one_of_several_processes_builds(own_cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[int] = context.Queue()
    workers = [context.Process(target=_build, args=(str(own_cache), queue)) for _ in range(4)]
    for w in workers:
        w.start()
    runs = [queue.get(timeout=300) for _ in workers]
    for w in workers:
        w.join()
    assert sorted(runs) == [0, 0, 0, 1]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_compilers(monkeypatch, tmp_path)
    assert not cc.compiler_available()
    with pytest.raises(BackendError, match="no C compiler was found") as e:
        cc.build_library(SOURCE % 1)
    assert "apt install gcc" in str(e.value)


def test_a_process_without_more_files(own_cache: Path) -> None:
    """That a compiler cannot be started then says nothing of the compiler."""
    cc._find.cache_clear()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(0)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        os.close(spare)
        with pytest.raises(BackendError, match="cannot run the compiler .*Too many open files") as e:
            cc.build_library(SOURCE % 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "install" not in str(e.value) and cc.compiler_available()


def test_named_compiler_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CC", "/no/such/compiler -x")
    with pytest.raises(BackendError, match="FUTAD_CC is '/no/such/compiler -x'"):
        cc.build_library(SOURCE % 1)
    monkeypatch.setenv("FUTAD_CC", "'unclosed")
    with pytest.raises(BackendError, match="FUTAD_CC"):
        cc.build_library(SOURCE % 1)


def test_broken_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiler that answers --version and fails otherwise is the user's trouble, not a defect of futad."""
    script = tmp_path / "mycc"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo mycc 1 && exit 0\necho no headers >&2; exit 1\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FUTAD_CC", str(script))
    with pytest.raises(BackendError, match="does not work:\nno headers"):
        cc.build_library(SOURCE % 1)


def test_flags_that_the_compiler_does_not_know(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "--no-such-flag")
    with pytest.raises(BackendError, match="rejects the flags in FUTAD_CFLAGS:\n.*--no-such-flag"):
        cc.build_library(SOURCE % 1)


def hanging(folder: Path) -> Path:
    """A compiler that waits for a child of its own, whose number it writes to the file `child`."""
    script = folder / "mycc"
    started = f"sleep 600 & echo $! > {folder}/new; mv {folder}/new {folder}/child"
    script.write_text(f"#!/bin/sh\ncase $1 in --version) echo mycc 1; exit;; esac\n{started}\nwait\n")
    script.chmod(0o755)
    return script


def is_gone(child: int) -> bool:
    """Within 100 seconds."""
    for _ in range(1000):
        try:
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True  # nobody may be left to ask for its status
        except OSError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_compiler_that_hangs(own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is stopped with its children, and the lock is free again."""
    script = hanging(tmp_path)
    monkeypatch.setenv("FUTAD_CC", str(script))
    for patience in (1, 10, 100):  # the script takes some of it to start
        monkeypatch.setattr(compiler_runs, "PATIENCE", patience)
        said = f"the compiler {script} has not finished after {patience} s, and was stopped"
        with pytest.raises(BackendError, match=said):
            cc.build_library("int f(void) { return 1; }")
        if (tmp_path / "child").exists():
            break
    assert not list(own_cache.rglob("*.lock"))
    assert is_gone(int((tmp_path / "child").read_text()))


@pytest.mark.slow
def test_an_interrupt_stops_the_compiler(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text("entry main (x: i64): i64 = x + 1\n")
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # where it is ignored, too
    code = f"{heard}; import futad.cli as c; exit(c.main())"
    command = [sys.executable, "-c", code, "run", "p.fut", "-b", "c"]
    env = {**os.environ, "FUTAD_CC": str(hanging(tmp_path)), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "child").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=300)[1] == b"futad: interrupted\n" and process.returncode == 130
    assert is_gone(int((tmp_path / "child").read_text()))
    assert not list(own_cache.rglob("*.lock"))


@needs_cc
def test_rejected_source_leaves_nothing(own_cache: Path) -> None:
    with pytest.raises(InternalError, match="nonsense"):
        cc.build_library("int f(void) { return nonsense; }")
    assert entries(own_cache, ".so") == []


@pytest.mark.slow
@needs_cc
def test_math_is_vectorised() -> None:
    """On glibc, loops over the elementary functions call the vector library."""
    if not cc._has_libmvec():
        pytest.skip("no libmvec on this platform")
    source = '#include "prelude.h"\n' + "\n".join(
        f"void loop_{op}(int64_t n, double *restrict r, const double *x)"
        f" {{ for (int64_t i = 0; i < n; i++) r[i] = futad_{op}_f64(x[i]); }}"
        for op in ("exp", "log", "sin", "cos", "tanh")
    )
    lib = cc.build_library(source)
    raw = Path(lib._name).read_bytes()
    for op in ("exp", "log", "sin", "cos", "tanh"):
        assert f"v_{op}".encode() in raw, op


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("FUTAD_CACHE_DIR")
    assert cache.cache_dir() == tmp_path / "xdg" / "futad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / ".cache" / "futad"


def test_standalone_source_needs_no_header() -> None:
    text = cc.standalone(SOURCE % 3)
    assert '#include "' not in text
    assert text.startswith(cc.standalone(cc.prelude()))
    assert text.endswith((SOURCE % 3).split("\n", 1)[1])


def test_digest_separates_its_parts() -> None:
    assert cache.digest("ab", "c") != cache.digest("a", "bc") != cache.digest("abc")


@pytest.mark.slow
def test_a_compiler_that_takes_long_is_told_of(tmp_path, monkeypatch, capsys):
    slow = tmp_path / "slow-cc"
    slow.write_text("#!/bin/sh\nsleep 0.3\n")
    slow.chmod(0o755)
    monkeypatch.setattr(compiler_runs, "SILENCE", 0.01)
    monkeypatch.setenv("FUTAD_PROGRESS", "0")
    assert cc.run_compiler([str(slow)], tmp_path).returncode == 0
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("FUTAD_PROGRESS")
    assert cc.run_compiler([str(slow)], tmp_path).returncode == 0
    assert capsys.readouterr().err == "futad: compiling with slow-cc; the result is kept for the next time\n"


@pytest.mark.slow
@needs_cc
def test_levels_of_optimisation(own_cache, monkeypatch):
    monkeypatch.setenv("FUTAD_OPT", "1")
    assert "-O1" in cc.compile_flags()
    assert cc.build_library(SOURCE % 41).answer(1) == 41
    monkeypatch.delenv("FUTAD_OPT")
    assert "-O3" in cc.compile_flags()
    cc.build_library(SOURCE % 41)
    assert len(entries(own_cache, ".so")) == 2
    monkeypatch.setenv("FUTAD_OPT", "fast")
    with pytest.raises(UsageError, match="FUTAD_OPT is 'fast', which is no level"):
        futad.compile("entry f (x: f64) = x").f(1.0)  # not run on the interpreter instead


@pytest.mark.parametrize(
    ("name", "version", "model", "gathers"),
    [
        ("cc", "cc (Debian 12.2.0-14+deb12u1) 12.2.0", "AMD EPYC 9B14", False),
        ("gcc-11", "gcc-11 (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "AMD Ryzen 9 7950X", False),
        ("gcc", "gcc (GCC) 13.2.1 20230801", "AMD EPYC 9B14", True),
        ("gcc", "gcc (GCC) 4.8.5 20150623", "AMD EPYC 9B14", True),
        ("cc", "cc (Debian 12.2.0-14+deb12u1) 12.2.0", "Intel(R) Xeon(R) CPU @ 2.50GHz", True),
        ("clang", "Debian clang version 14.0.6", "AMD EPYC 9B14", True),
    ],
)
def test_gathers_where_they_are_slow(monkeypatch, name, version, model, gathers):
    monkeypatch.setattr(cc, "cpu", lambda: f"model name\t: {model}\nflags\t: fpu avx2 avx512f")
    copyright = "" if name == "clang" else "Copyright (C) 2022 Free Software Foundation, Inc.\n"
    flags = cc.compile_flags(compiler=cc.Compiler((name,), f"{version}\n{copyright}"))
    assert ("-mtune-ctrl=^use_gather" not in flags) is gathers


@needs_cc
def test_options_that_a_clang_lacks_are_left_out(tmp_path, monkeypatch):
    """One that is gcc, but for what it says of itself and of what it does not know."""
    gcc = shutil.which(cc.find_compiler().command[0])
    clang = tmp_path / "clang"
    clang.write_text(f"""#!/bin/sh
[ "$1" = --version ] && echo 'clang version 3.1' && exit
case "$*" in
  *-mllvm*) echo "clang (LLVM option parsing): Unknown command line argument '-enable'" >&2; exit 1;;
esac
for a; do shift; case "$a" in -fveclib*) ;; *) set -- "$@" "$a";; esac; done
exec {gcc} "$@"
""")
    clang.chmod(0o755)
    compiler = cc.Compiler((str(clang),), "clang version 3.1")
    flags = cc.compile_flags(compiler=compiler)
    assert "-mllvm" in flags and "-mllvm" not in cc.compile_flags(compiler=cc.Compiler((str(gcc),), "gcc 12"))
    cc._compile(compiler, SOURCE % 42, flags, tmp_path / "out.so")
    assert (tmp_path / "out.so").exists()
    with pytest.raises(InternalError, match="rejected"):
        cc._compile(compiler, "int f( {", flags, tmp_path / "other.so")


@pytest.mark.slow
@needs_cc
def test_the_compiler_of_a_package_is_the_last_resort(tmp_path, monkeypatch):
    gcc = shutil.which(cc.find_compiler().command[0])
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    main = f"import os, sys\nos.environ['PATH'] = {os.environ['PATH']!r}\nos.execv({gcc!r}, [{gcc!r}, *sys.argv[2:]])\n"
    (package / "__main__.py").write_text(main)
    with monkeypatch.context() as now:
        without_compilers(now, tmp_path / "empty")
        assert cc.compiler_file() == ""
        with pytest.raises(BackendError, match="no C compiler was found") as e:
            cc.find_compiler()
        assert "futad[compiler]" in str(e.value)
    for variable in ("FUTAD_CC", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    cc._find.cache_clear()
    try:
        assert cc.find_compiler().command == cc.ZIG and cc.find_compiler().is_zig
        assert str(package) in cc.compiler_file()
        monkeypatch.setattr(cc, "compile_flags", lambda **_: ["-O0", "-w"])  # this one is no clang
        assert cc.build_library(SOURCE % 42).answer(1) == 42
    finally:
        cc._find.cache_clear()


@needs_cc
def test_gcc_makes_no_vectors_of_straight_line_code(tmp_path):
    """GCC 12.2 loses stores there; what it does beside that pass is wanted (see `compile_flags`)."""
    compiler = cc.find_compiler()
    if not compiler.gcc:
        pytest.skip("the compiler is no gcc")
    source = tmp_path / "f.c"
    source.write_text(
        "void f(double *restrict a, double *b) { a[0] = 2 * b[0]; a[1] = 2 * b[1]; a[2] = 2 * b[2]; a[3] = 2 * b[3]; }"
        "void g(double *restrict a, double *b, long n) { for (long i = 0; i < n; i++) a[i] = 2 * b[i]; }"
    )
    flags = [*cc.compile_flags(compiler=compiler), "-fopt-info-vec", "-c", str(source), "-o", str(tmp_path / "f.o")]
    done = cc.run_compiler([*compiler.command, *flags], tmp_path)
    assert done.returncode == 0 and "loop vectorized" in done.stderr and "basic block" not in done.stderr


@pytest.mark.parametrize(("version", "runs"), [("9.4.0", False), ("12.2.0", True), ("15.1.0", True), ("16.0.1", False)])
def test_passes_after_that_of_straight_line_code(version, runs):
    gcc = cc.Compiler(("gcc",), f"gcc (GCC) {version}\nCopyright (C) 2022 Free Software Foundation, Inc.\n")
    flags = cc.compile_flags(compiler=gcc)
    assert ("-ftree-slp-vectorize" in flags) is runs is ("-fdbg-cnt=vect_slp:0" in flags)
    assert ("-fno-tree-slp-vectorize" in flags) is not runs
