"""One rank of MPI fails: every stage of a call, every kind of exception, ranks that never come.  Nobody waits for ever,
and where all have failed together the next call is right."""

from __future__ import annotations

import pytest

from tests.support.mpi import needs_mpirun, started
from tests.support.needs import needs_cc

pytest.importorskip("mpi4py")
pytestmark = [pytest.mark.slow, needs_cc, needs_mpirun]

# Each stage is a way to have `fault()` called in the middle of it, or a fault of its own, on one rank.
TABLE = """
import contextlib
from futad.distributed import agreement, job, sharded

class Odd(BaseException):
    def __str__(self): raise ValueError("no text")

FAULTS = {
    "Python's error": lambda: ValueError("gone"), "futad's error": lambda: futad.ShapeError("gone"),
    "no memory": MemoryError, "interrupt": KeyboardInterrupt, "end": lambda: SystemExit(3), "no text": Odd,
    "recursion": RecursionError, "generator": lambda: GeneratorExit("gone"),
}
PLACES = {
    "splitting": (sharded.Sharded, "_split"), "binding": (sharded.Sharded, "_bind"),
    "a step of its own": (sharded.Sharded, "_step"), "a shard": (job.Job, "shard"), "reading": (job.Column, "read"),
    "combining": (job.Job, "combine"), "compiled code": (job.Split, "run"),
    "sending": (agreement.pickle, "dumps"), "receiving": (agreement.pickle, "loads"),
    "memory for an exchange": (agreement.np, "cumsum"), "taking": (sharded.Sharded, "_take"),
    "the result": (sharded, "build_value"), "waiting": (agreement.Agreement, "_received"),
}
f, (x, means), argnums = compiled("kmeans.objective")
D = shard(f, "n", engine="mpi", shards=7)
want = b"".join(v.tobytes() for v in flat(D.value_and_grad(x, means, argnums=argnums)))

@contextlib.contextmanager
def patched(owner, name, fault, at):
    real, calls = getattr(owner, name), 0
    def instead(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == at: raise fault
        return real(*args, **kwargs)
    setattr(owner, name, instead)
    try: yield
    finally: setattr(owner, name, real)

def failing(case, bad, call, kind, patch=contextlib.nullcontext()):
    global count
    count += 1
    try:
        with patch if rank == bad else contextlib.nullcontext(): call()
        said = "nothing"
    except BaseException as e:
        said = e
    if rank == bad: good = type(said).__name__ == kind
    else: good = type(said) is futad.ExecutionError and said.message.startswith(f"rank {bad} failed: {kind}")
    if not good: wrong.append((case, bad, repr(said)))
    again = D.value_and_grad(x, means, argnums=argnums)
    if b"".join(v.tobytes() for v in flat(again)) != want: wrong.append((case, bad, "then wrong"))

wrong, count = [], 0
"""
EXCEPTIONS = TABLE + """
for place, (owner, name) in PLACES.items():
    for fault, make in FAULTS.items():
        for bad in (0, 2):
            error = make()
            call = lambda: D.value_and_grad(x, means, argnums=argnums)
            for at in (1, 2) if name in ("_step", "run", "shard", "_received") else (1,):
                kind = "OutOfMemory" if (name, fault) == ("read", "no memory") else type(error).__name__
                failing((place, fault, at), bad, call, kind, patched(owner, name, error, at))
print(f"{rank} {count} {wrong}\\n", end="", flush=True)
"""
REAL = TABLE + """
def at(bad, wrong, right=lambda start, stop: x[start:stop]): return wrong if rank == bad else right
def failed(start, stop): raise ValueError("no such rows")
def later(start, stop): return x[start:stop] if start == stop else failed(start, stop)
def gone(start, stop): return np.memmap("/no/such/file", np.float64, "r", 0, (500, 3))[start:stop]
def interrupted(start, stop): os.kill(os.getpid(), signal.SIGINT); return x[start:stop]
def much(start, stop): return np.empty((1 << 58, 3))
def progress(done, total):
    if rank == 2: raise ValueError("told")
for bad in (0, 2):
    for function, kind in (
        (failed, "ValueError"), (later, "ValueError"), (gone, "FileNotFoundError"), (interrupted, "KeyboardInterrupt"),
        (much, "MemoryError"), (lambda start, stop: x[start:stop, 0], "ShapeError"),
        (lambda start, stop: x[start:stop, :2], "ShapeError"), (lambda start, stop: x[:3], "ShapeError"),
        (lambda start, stop: x[start:stop] + 1j, "DtypeError"), (lambda start, stop: None, "ShapeError"),
        (lambda start, stop: [["a"] * 3] * (stop - start), "ShapeError"),
    ):
        failing((function.__name__, kind), bad, lambda: D.value_and_grad(rows(at(bad, function), 500), means), kind)
    short = (x, means[:, :2]) if rank == bad else (x, means)
    failing("another shape", bad, lambda: D.value_and_grad(*short), "ShapeError")
    failing("arguments", bad, lambda: D(*(short[:1] if rank == bad else short)), "UsageError")
    failing("argnums", bad, lambda: D.value_and_grad(x, means, argnums=5 if rank == bad else 0), "UsageError")
    failing("a name", bad, lambda: D.value_and_grad(x, means, **{"no" if rank == bad else "argnums": 0}), "TypeError")
g = futad.compile("entry g [n] (i: [n]i64) (t: [3]f64): f64 = f64.sum (map (\\\\i -> t[i]) i)", backend="c").g
G = shard(g, "n", engine="mpi", shards=6)
failing("the program", 2, lambda: G(np.array([0, 1, 2, 0, 1, 3]), np.ones(3)), "BoundsError")
P = shard(f, "n", engine="mpi", progress=progress)
failing("progress", 2, lambda: P(x, means), "ValueError")
# An interrupt while others are in an exchange that nobody can leave: afterwards.
agreed = D.engine.agreed
class Interrupting:
    def __init__(self, comm): self.comm = comm
    def __getattr__(self, name): return getattr(self.comm, name)
    def Allgatherv(self, *args):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        self.comm.Allgatherv(*args)
        agreed.comm = self.comm
if rank == 1: agreed.comm = Interrupting(agreed.comm)
failing("an exchange", 1, lambda: D(x, means), "KeyboardInterrupt")
# A rank that waits is interrupted, and who is busy hears of it.
if rank == 1:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
def slow(start, stop): time.sleep(0.3 if rank == 2 else 0); return x[start:stop]
failing("a wait", 1, lambda: D(rows(slow, 500), means), "KeyboardInterrupt")
print(f"{rank} {count} {wrong}\\n", end="", flush=True)
"""

CALLS = """
f, (x, means), _ = compiled("kmeans.objective")
shard(f, "n", shards=6)(x, means)  # that takes as long as the compiler does
D = shard(f, "n", engine="mpi", shards=6, timeout=LIMIT)
MPI.COMM_WORLD.Barrier()
def told(call):
    try:
        return call() and "a value"
    except Exception as e:
        return getattr(e, "message", str(e))
def say(*texts):
    print(f"{rank}: {'; '.join(map(str, texts))}\\n", end="", flush=True)
"""


@pytest.mark.parametrize(("text", "count"), [(EXCEPTIONS, 13 * 8 * 2 + 4 * 8 * 2), (REAL, 34)], ids=["table", "real"])
def test_every_stage_and_every_exception(text, count, tmp_path):
    done = started(3, text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank} {count} []" for rank in range(3)], done.stderr


def said(done):
    """What each rank has said."""
    return {int(line[0]): line[3:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize(("bad", "before"), ((0, True), (2, True), (1, False)))
def test_a_rank_that_makes_no_call(bad, before, tmp_path):
    """The first one, or a later one; its next call and those of the others say that they do not fit any more."""
    text = """
first = D(x, means) if BEFORE else 0
if rank == BAD: time.sleep(LIMIT * 2.5)  # an exception that it takes, outside of calls
say(told(lambda: D(x, means)), told(lambda: D(x, means)))
MPI.COMM_WORLD.Barrier()
"""
    texts = said(started(3, f"LIMIT, BAD, BEFORE = 3, {bad}, {before}\n" + CALLS + text, tmp_path))
    who = f"rank {bad} has not been heard of for {3.6 if bad == 0 else 3} s"
    what = who if before else "of 3 ranks some have not made this call within 3 s"
    lost = who if before else "of 3 ranks some did not make the first call"
    for rank in {0, 1, 2} - {bad}:
        assert texts[rank] == f"{what}; ranks have lost each other in an earlier call: {lost}"
    assert texts[bad].partition("; ")[0] == (what if before and bad else "rank 0 has not been heard of for 3.6 s")
    assert "a value" not in texts[bad]


def test_a_rank_that_is_in_a_shard_for_ever(tmp_path):
    """All end: nobody takes the error."""
    text = """
def read(start, stop):
    if rank == 1 and start: time.sleep(600)
    return x[start:stop]
D(rows(read, 500), means)
"""
    done = started(2, "LIMIT = 2\n" + CALLS + text, tmp_path)
    assert done.returncode != 0 and "rank 1 has not been heard of for 2 s" in done.stderr


def test_ranks_that_are_slow_are_waited_for(tmp_path):
    """A phase takes longer than the limit; no shard does."""
    text = """
def read(start, stop):
    time.sleep(1.6 if rank == SLOW and stop else 0)
    return x[start:stop]
say(told(lambda: D(rows(read, 500), means)))
"""
    for slow in (0, 1):
        done = started(2, f"LIMIT, SLOW = 4, {slow}\n" + CALLS + text, tmp_path)
        assert said(done) == {0: "a value", 1: "a value"}, done.stderr


@pytest.mark.parametrize("bad", (0, 1))
@pytest.mark.parametrize("place", ("a shard", "an exchange", "between calls"))
def test_a_rank_that_is_killed(place, bad, tmp_path):
    text = f"""
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
D(x, means)
class Killing:
    Allgatherv = kill
    def __getattr__(self, name): return getattr(MPI.COMM_WORLD, name)
if rank == {bad}:
    if {place!r} == "an exchange":
        agreed, real = D.engine.agreed, D.engine.agreed.comm
        Killing.__getattr__ = lambda self, name: getattr(real, name)
        agreed.comm = Killing()
    elif {place!r} == "between calls":
        kill()
def read(start, stop):
    if rank == {bad} and start and {place!r} == "a shard": kill()
    return x[start:stop]
print(D(rows(read, 500), means))
"""
    done = started(2, "LIMIT = None\n" + CALLS + text, tmp_path)
    assert done.returncode != 0 and done.stdout == "" and "signal 9" in done.stderr


def test_calls_that_differ(tmp_path):
    text = """
calls = [
    lambda: D.value_and_grad(x, means) if rank else D(x, means),
    lambda: D(x[: 500 - rank], means),
    lambda: shard(f, "n", engine="mpi", shards=4 + rank)(x, means),
    lambda: shard(f, "n", engine="mpi", shards=6)(x, means) if rank else E(y),
]
e, (y,), _ = compiled("lse.primal")
E = shard(e, "n", engine="mpi", shards=6)
said = [told(call) for call in calls]
say(all("rank 1 makes another call" in text for text in said) or said, told(lambda: D(x, means)))
"""
    done = started(2, "LIMIT = 60\n" + CALLS + text, tmp_path)
    assert said(done) == {0: "True; a value", 1: "True; a value"}, done.stderr


def test_a_program_that_ends_early_on_one_rank(tmp_path):
    done = started(2, "LIMIT = 2\n" + CALLS + "D(x, means)\nif rank: sys.exit(3)\nD(x, means)\n", tmp_path)
    assert done.returncode != 0 and "rank 1 has not been heard of for 2 s" in done.stderr
