"""Memory after 10,000 calls: results of all kinds, derivatives, calls that fail in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

CALLS = """
import ctypes, gc, sys, warnings
import numpy as np
import futad
warnings.simplefilter("ignore")
TEXT = '''
entry scalar [n] (xs: [n]f64): f64 = f64.sum (map f64.sin xs)
entry array [n] (xs: [n]f64): [n]f64 = scan (+) 0 xs
entry several [n] (xs: [n]f64): ([n]f64, f64, {a: [n]i64, b: bool}) =
  (map (* 2) xs, xs[0], {a = map i64.f64 xs, b = n > 3})
entry unknown [n] (xs: [n]f64): []f64 = filter (> 0.5) xs
entry unique [n] (xs: *[n]f64): *[n]f64 = xs with [0] = 1
entry bools [n] (bs: [n]bool): [n]bool = map (\\\\b -> !b) bs
entry fails [n] (xs: [n]f64) (i: i64): ([n]f64, f64) = let ys = scan (+) 0 xs in (ys, ys[i])
entry asserts [n] (xs: [n]f64): [n]f64 = let ys = map (+ 1) xs in assert (ys[0] < 0) ys
entry grows (n: i64): []i64 = loop xs = [] for i < n do xs ++ [i]
entry back [n] (xs: [n]f64): [n]f64 = vjp (\\\\ys -> f64.product (map f64.cos (scan (+) 0 ys))) xs 1
entry iterations [n] (xs: [n]f64): [n]f64 =
  vjp (\\\\ys -> f64.sum (loop z = ys for i < 5 do map2 (*) z (rotate 1 ys))) xs 1
'''
backend, leak = sys.argv[1], len(sys.argv) > 2
prog = futad.compile(TEXT, backend=backend)
rng = np.random.default_rng(0)
sizes = (1, 3, 10) if backend in ("emulated", "interp") else (1, 3, 40, 20_000)
arrays = [rng.random(n) for n in sizes]
plain = [a > 0.5 for a in arrays]
odd = [(a * 200).astype(np.uint8).view(np.bool_) for a in arrays]
kept = []

def once(k):
    a, i = arrays[k % len(arrays)], k % len(arrays)
    for f in (prog.scalar, prog.array, prog.several, prog.unknown, prog.unique, prog.back, prog.iterations):
        f(a)
    prog.bools(plain[i])
    prog.bools(odd[i])
    prog.grows(k % 7)
    for f, args in ((prog.fails, (a, 10**6)), (prog.asserts, (a,)), (prog.scalar, (a.astype(np.int64),)),
                    (prog.unknown, ([[1.0]],))):
        try:
            f(*args)
        except futad.Error:
            continue
        sys.exit("no error")
    if leak:
        kept.append(bytes(1000))

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(n, ctypes.c_size_t) for n in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def held():
    gc.collect()
    info = libc.mallinfo2()
    with open("/proc/self/status") as f:  # not pages of files: those come and go with what else the machine does
        pages = dict(line.split(":") for line in f)
    own = sum(int(pages[name].split()[0]) for name in ("RssAnon", "VmSwap"))
    return info.uordblks + info.hblkhd, 1024 * own, len(gc.get_objects())

for k in range(60): once(k)
grown = []
for _ in range(3):
    before = held()
    for k in range(240): once(k)  # 14 calls each
    grown.append([b - a for a, b in zip(before, held())])
print(*[3 * min(each) for each in zip(*grown)])  # a leak is in each, what is made once is not
"""


def grown(folder: Path, *args: str) -> list[int]:
    """Bytes that the C library has handed out, bytes of memory of its own, and objects of Python: by how many more
    after 10,000 calls, by the third of them in which it is least."""
    (folder / "calls.py").write_text(CALLS)
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",  # a thread's freed pieces are counted as handed out
    }  # fmt: skip
    done = subprocess.run([sys.executable, "calls.py", *args], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=900)  # fmt: skip
    if "mallinfo2" in done.stderr:
        pytest.skip("the C library does not say what it has handed out")
    assert done.returncode == 0, done.stderr
    return [int(n) for n in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted as on Linux")
@pytest.mark.parametrize("backend", [
    "interp", pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=needs_cxx),
])  # fmt: skip
def test_calls_leave_nothing(backend: str, tmp_path: Path) -> None:
    handed_out, resident, objects = grown(tmp_path, backend)
    assert handed_out < 2_048 and objects < 20, "less than a fourth of a byte a call"
    assert resident < 4 << 20


@pytest.mark.slow
@needs_cc
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted as on Linux")
def test_a_leak_is_seen(tmp_path: Path) -> None:
    """Of a thousand bytes in every fourteenth call."""
    assert grown(tmp_path, "c", "leak")[0] > 16_384
