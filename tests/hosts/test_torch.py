"""Entries in PyTorch: `futad.torch`."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import AssertionFailed, BoundsError, DtypeError, ShapeError, UsageError
from tests.support.benchmark_programs import program
from tests.support.slow import slow_but

torch = pytest.importorskip("torch")
import futad.torch  # noqa: E402

SOURCE = """
entry layer [n][m] (w: [m][n]f64) (x: [n]f64): [m]f64 = map (\\r -> f64.tanh (f64.sum (map2 (*) r x))) w
entry loss [n] (w: {a: [n]f64, b: f64, k: i64}) (x: [n]f64): f64 =
  f64.sum (map2 (\\a x -> f64.sin (a * x) + w.b * w.b * x ** f64.i64 w.k) w.a x)
entry many [n] (x: [n]f64) (k: i64): {s: [n]f64, k: i64, t: (f64, bool)} =
  {s = map f64.sin x, k = k + 1, t = (f64.sum x, k > 2)}
entry narrow [n] (x: [n]f32) (s: f32): [n]f32 = map (* s) x
entry set [n] (xs: *[n]f64) (i: i64) (x: f64): [n]f64 = xs with [i] = x
entry positive (xs: []f64): []f64 = map (** 2) (filter (> 0) xs)
entry capped (x: f64): f64 = assert (x < 2) (x * x * x)
entry copies (k: i64) (x: f64): [k]f64 = replicate k (x * x)
"""
F64 = torch.float64


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, "net.fut", backend="c")


def randn(*shape: int, grad: bool = True, seed: int = 0) -> Any:
    made = torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_(grad)


# -- autograd


def test_values_and_gradients_are_pytorchs(prog: Program) -> None:
    layer = futad.torch.function(prog.layer)
    w, x = randn(3, 4), randn(4, seed=1)
    torch.testing.assert_close(layer(w, x), torch.tanh(w @ x))
    mine = torch.autograd.grad(layer(w, x).square().sum(), (w, x))
    torch.testing.assert_close(mine, torch.autograd.grad(torch.tanh(w @ x).square().sum(), (w, x)))
    assert layer is futad.torch.function(prog.layer) and layer.__name__ == "layer"
    assert torch.equal(layer(x=x, w=w), layer(w, x))
    assert not layer(w.detach(), x.detach()).requires_grad


def test_hints_speak_of_tensors() -> None:
    entry = futad.compile("entry f [n] (x: [n]f64): f64 = f64.sum x", backend="interp").f
    with pytest.raises(DtypeError, match=r"x\.to\(torch\.float64\)"):
        entry(torch.arange(3))
    with pytest.raises(DtypeError, match=r"detach"):
        entry(torch.ones(3, dtype=torch.float64, requires_grad=True))


def test_records_numbers_and_integers(prog: Program) -> None:
    loss, many = futad.torch.function(prog.loss), futad.torch.function(prog.many)
    w = {"a": randn(3), "b": torch.tensor(0.5, dtype=F64, requires_grad=True), "k": 2}
    x = randn(3, grad=False, seed=1)
    value = loss(w, x)
    value.backward()
    expected = futad.grad(prog.loss)({"a": w["a"].detach(), "b": 0.5, "k": 2}, x)
    np.testing.assert_allclose(w["a"].grad, expected.a)
    assert w["b"].grad.item() == pytest.approx(expected.b)
    made = many(w["a"], 3)
    assert (made.k.item(), made["t"][1].item()) == (4, True) and made.t[0].requires_grad
    assert made.k.dtype is torch.int64 and not made.k.requires_grad
    (made.s.sum() * 2 + made.t[0]).backward()
    torch.testing.assert_close(w["a"].grad - torch.tensor(expected.a), 2 * w["a"].detach().cos() + 1)
    assert many(w["a"], torch.tensor(3)).k == 4


def test_memory_is_shared_where_it_can_be_and_never_changed(prog: Program) -> None:
    narrow, setter = futad.torch.function(prog.narrow), futad.torch.function(prog.set)
    x = torch.arange(6.0).reshape(2, 3)
    assert narrow(x.T[1], 2).tolist() == [2, 8] and narrow(x[0], 2.5).dtype is torch.float32
    for _ in range(3):
        xs = torch.zeros(3, dtype=F64, requires_grad=True)
        made = setter(xs, 1, 5.0)
        assert made.tolist() == [0, 5, 0] and not xs.any()
        made.sum().backward()
        assert xs.grad.tolist() == [1, 0, 1]
    y = narrow(x[0], 1.0)
    y += 1
    assert x[0].tolist() == [0, 1, 2] and narrow(torch.empty(0), 1.0).shape == (0,)
    assert narrow(x[0].to(torch.float16), 2).tolist() == [0, 2, 4]


ENTRIES = {
    "gmm": lambda p: (p.objective, (randn(2), randn(2, 2, seed=1), randn(2, 3, seed=2), randn(4, 2, seed=3), 1.0, 0)),
    "kmeans": lambda p: (p.objective, (randn(5, 2), randn(2, 2, seed=1))),
    "lse": lambda p: (p.primal, (randn(4),)),
    "det": lambda p: (p.primal, (2, randn(4))),
    "leapfrog": lambda p: (p.loss, (3, 0.1, randn(2).detach().abs(), randn(2, seed=1), randn(2, seed=2))),
    "lstm64": lambda p: (p.objective, (*[randn(*s, seed=i) for i, s in enumerate(
        [(4, 2, 2), (4, 2, 2), (4, 2), (1, 2), (1,), (1, 2), (1, 2), (2, 1, 2), (2, 1, 1)])],)),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_but(("kmeans", "lse"), ENTRIES))
def test_derivatives_of_benchmark_programs(name: str) -> None:
    """`gradcheck` and `gradgradcheck`: first and second derivatives against differences, forward mode too."""
    f, args = ENTRIES[name](program(name, "c"))
    made = futad.torch.function(f)
    assert torch.autograd.gradcheck(made, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(made, args)


def test_third_derivatives(prog: Program) -> None:
    capped = futad.torch.function(prog.capped)
    y = x = torch.tensor(1.5, dtype=F64, requires_grad=True)
    y = capped(x)
    for expected in (3 * 1.5**2, 6 * 1.5, 6.0):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected)


def test_inputs_changed_in_place_are_noticed(prog: Program) -> None:
    layer = futad.torch.function(prog.layer)
    w, x = randn(3, 4), randn(4, grad=False)
    made = layer(w, x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


# -- torch.func


def test_transformations_of_torch_func(prog: Program) -> None:
    layer, w, x = futad.torch.function(prog.layer), randn(3, 4, grad=False), randn(4, grad=False, seed=1)

    def own(w: Any, x: Any) -> Any:
        return torch.tanh(w @ x)

    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(layer, (0, 1))(w, x), transform(own, (0, 1))(w, x))
    grads = [torch.func.grad(lambda w, x, f=f: f(w, x).square().sum(), (0, 1))(w, x) for f in (layer, own)]
    torch.testing.assert_close(*grads)
    hessians = [torch.func.hessian(lambda x, f=f: f(w, x).square().sum())(x) for f in (layer, own)]
    torch.testing.assert_close(*hessians)
    pairs = [torch.func.jvp(lambda x, f=f: f(w, x), (x,), (x + 1,)) for f in (layer, own)]
    torch.testing.assert_close(*pairs)


def test_batches_of_torch_func(prog: Program) -> None:
    layer, loss = futad.torch.function(prog.layer), futad.torch.function(prog.loss)
    w, xs = randn(3, 4, grad=False), randn(4, 5, grad=False, seed=1)
    made = torch.func.vmap(layer, (None, 1))(w, xs)
    torch.testing.assert_close(made, torch.stack([layer(w, x) for x in xs.T]))
    each = torch.func.vmap(torch.func.grad(lambda x: layer(w, x).sum()), 1)(xs)
    torch.testing.assert_close(each, torch.stack([torch.func.grad(lambda x: layer(w, x).sum())(x) for x in xs.T]))
    # A record of which one component has the batch.
    a, x = randn(5, 3, grad=False), randn(3, grad=False, seed=2)
    some = torch.func.vmap(lambda a: loss({"a": a, "b": 0.5, "k": 2}, x))(a)
    one_by_one = [loss({"a": row, "b": 0.5, "k": 2}, x) for row in a]
    torch.testing.assert_close(some, torch.stack(one_by_one))
    twice = torch.func.vmap(torch.func.vmap(layer, (None, 0)), (0, None))(torch.stack([w, 2 * w]), xs.T)
    torch.testing.assert_close(twice[1], torch.stack([layer(2 * w, x) for x in xs.T]))
    with pytest.raises(UsageError, match="may differ in shape"):
        torch.func.vmap(futad.torch.function(prog.positive))(xs)


@pytest.mark.parametrize("mode", ["reverse-mode", "forward-mode"])
def test_batches_of_cotangents_and_tangents(prog: Program, mode: str) -> None:
    layer, many, w, x = futad.torch.function(prog.layer), futad.torch.function(prog.many), randn(3, 4), randn(4, seed=1)
    for f, own in (
        (lambda x: layer(w, x), lambda x: torch.tanh(w @ x)),
        (lambda x: many(x, 3).s, torch.sin),
    ):
        mine, theirs = [torch.autograd.functional.jacobian(g, x, vectorize=True, strategy=mode) for g in (f, own)]
        torch.testing.assert_close(mine, theirs)
    y, z = layer(w, x), torch.tanh(w @ x)
    bars = randn(5, 3, grad=False, seed=2)
    found = [torch.autograd.grad(v, (w, x), bars, is_grads_batched=True, create_graph=True) for v in (y, z)]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*[torch.autograd.grad(f[0].square().sum(), x) for f in found])


def test_results_whose_sizes_are_found_by_running(prog: Program) -> None:
    positive = futad.torch.function(prog.positive)
    for _ in range(3):  # the first call compiles
        for numbers in ([1.0, -2.0, 3.0], [-1.0], []):
            x = torch.tensor(numbers, dtype=F64, requires_grad=True)
            (bar,) = torch.autograd.grad(positive(x).sum(), x)
            assert positive(x).tolist() == [a * a for a in numbers if a > 0]
            assert bar.tolist() == [2 * a if a > 0 else 0 for a in numbers]


# -- torch.compile


def test_the_operator_passes_opcheck(prog: Program) -> None:
    samples = {
        "layer": (randn(3, 4), randn(4, seed=1)),
        "many": (randn(3), 3),
        "narrow": (torch.ones(3), torch.tensor(2.0)),
        "copies": (4, torch.tensor(2.0, dtype=F64)),
        "positive": (randn(4),),
    }
    for name, args in samples.items():
        checks = torch.library.opcheck(futad.torch.function(prog[name]).op, args)
        assert set(checks.values()) == {"SUCCESS"}, name


@pytest.mark.parametrize("backend", slow_but(("aot_eager",), ("aot_eager", "inductor")))
def test_compiled_code_is_one_graph(prog: Program, backend: str) -> None:
    layer, loss = futad.torch.function(prog.layer), futad.torch.function(prog.loss)

    def whole(w: Any, x: Any) -> Any:
        y = layer(w * 2, x).relu()
        return loss({"a": y, "b": w[0, 0], "k": 2}, y + 1) + y.sum()

    made = torch.compile(whole, fullgraph=True, backend=backend)
    for n in (4, 5, 6):  # from the second on with sizes as symbols
        w, x = randn(3, n, seed=n), randn(n, seed=n + 10)
        mine, theirs = made(w, x), whole(w, x)
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(torch.autograd.grad(mine, (w, x)), torch.autograd.grad(theirs, (w, x)))


# -- modules, processes


def test_modules_have_parameters(prog: Program) -> None:
    module = futad.torch.Module(prog.loss, w={"a": torch.ones(3), "b": 0.5, "k": 2})
    assert [n for n, _ in module.named_parameters()] == ["w__a", "w__b"] and module.w__a.dtype is F64
    x = randn(3, grad=False)
    optimiser = torch.optim.SGD(module.parameters(), 0.05)
    before = module(x).item()
    for _ in range(5):
        optimiser.zero_grad()
        module(x).backward()
        optimiser.step()
    assert module(x).item() < before
    again = copy.deepcopy(module)
    again.load_state_dict(module.state_dict())
    assert again(x) == module(x) and again.function is module.function
    with pytest.raises(UsageError, match="loss has no argument 'v'"):
        futad.torch.Module(prog.loss, v=1.0)


class Rows(torch.utils.data.Dataset):
    """What a worker computes with an entry."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        return self.f(torch.full((3,), float(i)), 2.0)


@pytest.mark.parametrize("method", slow_but(("fork",), ("fork", "spawn")))
def test_workers_of_a_loader(prog: Program, method: str) -> None:
    rows = Rows(futad.torch.function(prog.narrow))
    assert rows[1].tolist() == [2, 2, 2]
    loader = torch.utils.data.DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context=method, timeout=120)
    assert torch.cat(list(loader)).tolist() == [[2.0 * i] * 3 for i in range(8)]
    assert pickle.loads(pickle.dumps(rows.f)) is rows.f


DDP = """
import os, pickle, sys
import torch, futad.torch
import torch.distributed as dist
f, port = pickle.load(open(sys.argv[1], "rb"))
rank = int(sys.argv[2])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
dist.init_process_group("gloo", rank=rank, world_size=2)
torch.manual_seed(0)
xs = torch.randn(8, 3, dtype=torch.float64)
module = futad.torch.Module(f, w={"a": torch.ones(3), "b": 0.5, "k": 2})
whole = torch.nn.parallel.DistributedDataParallel(module)
sum(whole(x) for x in xs[rank::2]).backward()
mine = [p.grad.clone() for p in module.parameters()]
alone = futad.torch.Module(f, w={"a": torch.ones(3), "b": 0.5, "k": 2})
sum(alone(x) for x in xs).backward()
for a, b in zip(mine, alone.parameters()):
    torch.testing.assert_close(a * 2, b.grad, rtol=1e-12, atol=1e-12)
print("equal", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_are_one_process(prog: Program, tmp_path: Path) -> None:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    (tmp_path / "f.pickle").write_bytes(pickle.dumps((prog.loss, port)))
    command = [sys.executable, "-c", DDP, str(tmp_path / "f.pickle")]
    ranks = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, env=dict(os.environ)) for i in range(2)]
    assert [r.communicate(timeout=180)[0].strip() for r in ranks] == [b"equal", b"equal"]


# -- errors


def test_errors_of_the_program_have_their_place(prog: Program) -> None:
    capped, setter = futad.torch.function(prog.capped), futad.torch.function(prog.set)
    for _ in range(2):
        with pytest.raises(AssertionFailed, match=r"net.fut:10:\d+: Error: "):
            capped(torch.tensor(3.0, dtype=F64))
    for _ in range(2):
        with pytest.raises(BoundsError, match=r"net.fut:8:\d+: Error: Index \[3\] out of bounds for array"):
            setter(torch.zeros(2, dtype=F64), 3, 0.0)
    assert isinstance(pytest.raises(IndexError, setter, torch.zeros(2, dtype=F64), 3, 0.0).value, futad.Error)
    assert capped(torch.tensor(1.0, dtype=F64)) == 1


def test_wrong_arguments_are_named(prog: Program) -> None:
    layer, narrow = futad.torch.function(prog.layer), futad.torch.function(prog.narrow)
    w, x = randn(3, 4), randn(4)
    layer(w, x)  # what follows is the same before and after the first call
    with pytest.raises(ShapeError, match="argument 'x' of layer: dimension 0 is 5, but size n is 4 by argument 'w'"):
        layer(w, randn(5))
    with pytest.raises(ShapeError, match="argument 'x': expected .*f64, which has rank 1, got a tensor of shape"):
        layer(w, w)
    for wrong in (torch.float32, torch.int64, torch.bfloat16, torch.complex128):
        with pytest.raises(DtypeError, match="argument 'x': expected .*float32.*got a tensor of torch") as e:
            narrow(torch.ones(2, dtype=F64 if wrong is torch.float32 else wrong), 1.0)
        assert "x.to(torch.float32)" in str(e.value)
    with pytest.raises(DtypeError, match=r"(?s)argument 'w': .*tensor of layout torch.sparse_coo.*to_dense"):
        layer(torch.eye(4, dtype=F64).to_sparse(), x)
    with pytest.raises(UsageError, match="layer: missing a required argument: 'x'"):
        layer(w)
    with pytest.raises(DtypeError, match="argument 'x'"):
        layer(w, None)
    with pytest.raises(UsageError, match="takes an entry of a program, not function"):
        futad.torch.function(lambda x: x)
    with pytest.raises(DtypeError, match="hint: futad.torch.function.f. takes tensors with gradients"):
        prog.layer(w, x)


def test_bound_entries_and_other_backends(prog: Program) -> None:
    x = randn(3, grad=False)
    bound = futad.torch.function(futad.bind(prog.loss, x=x.numpy()))
    w = {"a": randn(3), "b": 0.5, "k": 2}
    torch.testing.assert_close(bound(w), futad.torch.function(prog.loss)(w, x))
    bound(w).backward()
    np.testing.assert_allclose(w["a"].grad, futad.grad(prog.loss)({**w, "a": w["a"].detach()}, x).a)
    slow = futad.compile(SOURCE, backend="interp")
    assert torch.autograd.gradcheck(futad.torch.function(slow.layer), (randn(2, 2), randn(2)))
