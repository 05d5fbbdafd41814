"""Shards on Dask's workers: the same bits on one, two and three, after a death, from every kind of data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.distributed import parquet, rows, shard
from futad.errors import BoundsError, ExecutionError, FileNotFound, InputError, UsageError
from tests.support.benchmark_programs import program
from tests.support.needs import needs_cc
from tests.support.paths import ROOT
from tests.support.sharding import arguments, flat, same_bits

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, needs_cc]


@pytest.fixture(scope="module", autouse=True)
def no_namesakes():
    """Dask looks for a package `sparse`, which is a command of `benchmarks/` where tests find modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [p for p in sys.path if Path(p).name != "benchmarks"])
        patch.delitem(sys.modules, "sparse", raising=False)
        yield


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as made:
        yield made


def compiled(name):
    f, args, argnums = arguments(name, 500)
    origin = f.executable.origin
    whole = futad.compile(origin.texts[origin.main], backend="c")
    return whole[f.__name__], args, argnums


def test_without_a_client():
    with pytest.raises(UsageError, match="needs a client"):
        shard(program("kmeans", "c").objective, "n", engine="dask")


def test_the_same_bits_on_one_two_and_three_workers(cluster, client):
    cases = [compiled(name) for name in ("gmm.objective", "kmeans.objective", "llsq.primal", "lse.primal", "logistic",
                                         "histogram")]  # fmt: skip
    here = [shard(f, "n", shards=7).value_and_grad(*args, argnums=argnums) for f, args, argnums in cases]
    for workers in (1, 2, 3):
        cluster.scale(workers)
        client.wait_for_workers(workers)
        for (f, args, argnums), want in zip(cases, here, strict=True):
            sharded = shard(f, "n", client=client, shards=7)
            assert same_bits(sharded.value_and_grad(*args, argnums=argnums), want)
            assert sharded.report.workers == workers
            for g, w in zip(flat(want), flat(futad.value_and_grad(f, argnums=argnums)(*args)), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12 * max(1, np.abs(w).max(initial=0)))


def test_a_killed_worker_changes_no_bit(client, tmp_path):
    x, means = np.random.default_rng(1).normal(size=(400, 3)), np.eye(3)
    f = program("kmeans", "c").objective
    mark, kill = str(tmp_path / "killed"), signal.SIGKILL

    def read(start, stop):
        if start >= 200 and not os.path.exists(mark):
            Path(mark).touch()
            os.kill(os.getpid(), kill)
        return x[start:stop]

    told = []
    sharded = shard(f, "n", client=client, shards=16, progress=lambda done, total: told.append((done, total)))
    assert same_bits(sharded.value_and_grad(rows(read, 400), means, argnums=1),
                     shard(f, "n", shards=16).value_and_grad(x, means, argnums=1))  # fmt: skip
    assert Path(mark).exists() and told[-1] == (16, 16)


def test_data_that_workers_read(client, tmp_path):
    x, means = np.random.default_rng(1).normal(size=(300, 3)), np.eye(3)
    f = program("kmeans", "c").objective
    want = shard(f, "n", shards=5).value_and_grad(x, means, argnums=1)
    np.save(tmp_path / "x.npy", x)
    np.asfortranarray(x).T.tofile(tmp_path / "x.raw")
    given = [x, np.load(tmp_path / "x.npy", mmap_mode="r"), lambda start, stop: x[start:stop]]
    given.append(np.memmap(tmp_path / "x.raw", np.float64, "r", 0, (300, 3), "F"))
    if zarr := _there("zarr"):
        given.append(zarr.create_array(store=str(tmp_path / "x.zarr"), data=x, chunks=(64, 3)))
    if h5py := _there("h5py"):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["x"] = x
        opened = h5py.File(tmp_path / "x.h5", "r")
        given.append(opened["x"])
    if array := _there("dask.array"):
        given.append(array.from_array(x, chunks=(70, 3)) * 1.0)
    if pyarrow := _there("pyarrow"):
        from pyarrow.parquet import write_table

        write_table(pyarrow.table({"ab"[i] if i < 2 else "c": x[:, i] for i in range(3)}), tmp_path / "x.parquet",
                    row_group_size=90)  # fmt: skip
        given.append(parquet(tmp_path / "x.parquet", ["a", "b", "c"]))
    for data in given:
        for by in ({"client": client}, {"engine": "local"}):
            count = {} if not callable(data) else {"rows": 300}
            source = rows(data, count["rows"]) if count else data
            assert same_bits(shard(f, "n", shards=5, **by).value_and_grad(source, means, argnums=1), want), type(data)


def _there(name):
    try:
        return pytest.importorskip(name)
    except pytest.skip.Exception:
        return None


def test_lists_and_views(client):
    f = program("kmeans", "c").objective
    x = np.arange(24.0).reshape(12, 2)
    for given in (x.tolist(), x[::-1][::-1], np.asfortranarray(x), x.astype(np.float32)):
        assert shard(f, "n", client=client, shards=3)(given, x[:2]) == shard(f, "n", shards=3)(x, x[:2])


def test_an_array_that_is_changed_between_calls(client):
    x = np.random.default_rng(1).normal(size=(300, 3))
    f = program("kmeans", "c").objective
    sharded = shard(f, "n", client=client, shards=5)
    first = sharded(x, np.eye(3))
    x[7] += 3
    assert sharded(x, np.eye(3)) != first
    assert sharded(x, np.eye(3)) == shard(f, "n", shards=5)(x, np.eye(3))


def test_what_fails_on_a_worker(cluster, client, tmp_path):
    f = futad.compile("entry f [n] (x: [n]i64) (t: [3]f64): f64 = f64.sum (map (\\i -> t[i]) x)", backend="c").f
    sharded = shard(f, "n", client=client, shards=4)
    with pytest.raises(BoundsError, match=r"Index \[3\]"):
        sharded(np.array([0, 1, 2, 3]), np.ones(3))
    lost = np.memmap(tmp_path / "gone.raw", np.int64, "w+", 0, (8,))
    Path(tmp_path / "gone.raw").unlink()
    with pytest.raises(FileNotFound, match=r"there is no file .*gone\.raw"):
        sharded(lost, np.ones(3))

    def die(start, stop):
        if stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(stop - start, np.int64)

    cluster.scheduler.allowed_failures = 1  # soon
    with pytest.raises(ExecutionError, match="workers died that ran the shards"):
        sharded(rows(die, 8), np.ones(3))


def test_memory_maps_that_are_written_to(tmp_path):
    x, means = np.random.default_rng(1).normal(size=(50, 3)), np.eye(3)
    np.save(tmp_path / "x.npy", x)
    f = program("kmeans", "c").objective
    for mode in ("c", "r+"):  # a copy on write has values that its file has not
        given = np.load(tmp_path / "x.npy", mmap_mode=mode)
        given[7] += 3
        assert shard(f, "n", shards=4)(given, means) == shard(f, "n", shards=4)(np.array(given), means)


def test_what_cannot_be_read(tmp_path):
    f = futad.compile("entry f [n] (x: [n]i64) (a: i64): i64 = a * i64.sum x", backend="c").f
    sharded = shard(f, "n", shards=2)
    np.save(tmp_path / "x.npy", np.arange(4))
    with pytest.raises(UsageError, match="the name of a file does not say how it is read"):
        sharded(tmp_path / "x.npy", 2)
    assert sharded(a=2, x=np.load(tmp_path / "x.npy", mmap_mode="r")) == 12
    for count in (-1, 2.5, "3"):
        with pytest.raises(UsageError, match="the number of rows must be an int"):
            rows(lambda start, stop: np.arange(start, stop), count)
    with pytest.raises(UsageError, match="takes a function of"):
        rows(np.arange(3), 3)
    if h5py := _there("h5py"):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["g/x"] = np.arange(4)
            data, group = file["g/x"], file["g"]
            with pytest.raises(UsageError, match="a Group of h5py"):
                sharded(group, 2)
        with pytest.raises(UsageError, match="its file is closed"):
            sharded(data, 2)
    if pyarrow := _there("pyarrow"):
        from pyarrow.parquet import write_table

        path = tmp_path / "x.parquet"
        write_table(pyarrow.table({"i": pyarrow.array([1, None, 3]), "x": pyarrow.array([1.0, None, 3.0])}), path)
        with pytest.raises(InputError, match="column 'i' has rows without a value"):
            sharded(parquet(path, "i"), 2)
        assert np.isnan(parquet(path, "x").read(0, 0, 3)[1])
        with pytest.raises(InputError, match="no Parquet file"):
            parquet(tmp_path / "x.npy", "i")


def test_a_memory_map_larger_than_a_worker_may_hold(tmp_path):
    """FUTAD_TEST_MAPPED: megabytes of the file, by default 384; workers may have a quarter of it for data."""
    import resource

    size = int(os.environ.get("FUTAD_TEST_MAPPED", 384)) << 20
    count = size // 64
    path = tmp_path / "x.raw"
    x = np.memmap(path, np.float64, "w+", 0, (count, 8))  # a file with holes
    marked = np.arange(0, count, count // 1000)
    x[marked] = np.random.default_rng(0).normal(size=(len(marked), 8))
    x.flush()
    means = np.stack([np.zeros(8), np.ones(8)])
    f = program("kmeans", "c").objective

    def limit(size):
        with open("/proc/self/statm") as text:
            there = int(text.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (there + size, there + size))
        try:
            np.memmap(path, np.uint8, "r")
        except OSError:
            return True
        return False

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        few = shard(f, "n", client=client, shards=4)
        few.value_and_grad(x[:1].copy(), means, argnums=1)  # code is loaded
        assert all(client.run(limit, size // 4).values())  # the whole cannot be mapped
        got = flat(shard(f, "n", client=client, shards=64).value_and_grad(x, means, argnums=1))
    want = flat(futad.value_and_grad(f, argnums=1)(np.array(x[marked]), means))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10)


LOST = """
import subprocess, sys, threading, time
import distributed, numpy as np
import futad
from futad.distributed import rows, shard
if __name__ == "__main__":
    how = sys.argv[1]
    def started(name, *more):
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file", "file.json", *more]
        return subprocess.Popen([*command, "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    others = [started("scheduler", "--port", "0"), started("worker", "--no-nanny", "--nthreads", "1")]
    try:
        client = distributed.Client(scheduler_file="file.json")
        client.wait_for_workers(1)
        f = futad.compile("entry f [n] (x: [n]f64) (a: f64): f64 = a * f64.sum x", backend="interp").f
        D = shard(f, "n", client=client, shards=4, timeout=3)
        assert D(np.ones(100), 2.0) == 200
        def read(start, stop):
            if stop: time.sleep(2)
            return np.ones(stop - start)
        end = {"scheduler": others[0].kill, "worker": others[1].kill, "client": client.close}[how]
        threading.Timer(1.0, end).start()
        try:
            print(D(rows(read, 100), 2.0))
        except futad.ExecutionError as e:
            print(e.message)
    finally:
        for process in others: process.kill()
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("scheduler", "its scheduler ended, or the client was closed"),
        ("worker", "has had no workers, or has not answered, for 3 s"),
        ("client", "client was closed"),
    ],
)
def test_who_is_lost_for_good(how, said, tmp_path):
    """Without a nanny nobody starts another worker."""
    (tmp_path / "lost.py").write_text(LOST)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "lost.py", how], cwd=tmp_path, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=100)  # fmt: skip
    assert said in done.stdout
