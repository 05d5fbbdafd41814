"""Calls of entries where PyTorch looks on: `make_fx`, fake and meta tensors, dispatch modes, transformations.

None is left out of a graph, and none ends in an error of another library's.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import futad
from futad.api.program import Program
from futad.errors import DtypeError, ShapeError, UsageError
from tests.support.slow import slow_but

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.func import functionalize, grad, hessian, jvp, vmap  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import futad.torch  # noqa: E402

SOURCE = """
entry layer [n][m] (w: [m][n]f64) (x: [n]f64): [m]f64 = map (\\r -> f64.tanh (f64.sum (map2 (*) r x))) w
entry loss [n] (w: {a: [n]f64, b: f64, k: i64}) (x: [n]f64): f64 =
  f64.sum (map2 (\\a x -> f64.sin (a * x) + w.b * w.b * x ** f64.i64 w.k) w.a x)
entry many [n] (x: [n]f64) (k: i64): {s: [n]f64, k: i64, t: (f64, bool)} =
  {s = map f64.sin x, k = k + 1, t = (f64.sum x, k > 2)}
entry narrow [n] (x: [n]f32) (s: f32): [n]f32 = map (* s) x
entry positive (xs: []f64): []f64 = map (** 2) (filter (> 0) xs)
entry copies (k: i64) (x: f64): [k]f64 = replicate k (x * x)
"""
F64 = torch.float64


@pytest.fixture(scope="module")
def prog() -> Program:
    """Run by the interpreter: what is called is the same."""
    return futad.compile(SOURCE, "net.fut", backend="interp")


def randn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


W, X = randn(3, 4), randn(4, seed=1)


def own(w: Any, x: Any) -> Any:
    return torch.tanh(w @ x)


def by_autograd(f: Any, w: Any, x: Any) -> Any:
    w = w.detach().requires_grad_()
    return torch.autograd.grad(f(w, x).square().sum(), w)[0]


USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "value": lambda f, w, x: f(w * 2, x).sum(),
    "grad": lambda f, w, x: grad(lambda w: f(w, x).square().sum())(w),
    "autograd": by_autograd,
    "vmap": lambda f, w, x: vmap(lambda r: f(w, r * x))(torch.stack([x, 2 * x])),
    "jvp": lambda f, w, x: jvp(lambda x: f(w, x), (x,), (2 * x,))[1],
    "hessian": lambda f, w, x: hessian(lambda x: f(w, x).square().sum())(x),
    "vmap of grad": lambda f, w, x: vmap(grad(lambda r: f(w, r).square().sum()))(torch.stack([x, 2 * x])),
    "functionalize": lambda f, w, x: functionalize(lambda w, x: f(w.mul(2).add_(1), x))(w, x),
    "functionalize of vmap": lambda f, w, x: functionalize(vmap(lambda r: f(r, x)))(torch.stack([w, 2 * w])),
}


def graph_of(use: str, f: Any, **options: Any) -> Any:
    return make_fx(lambda w, x: USES[use](f, w, x), **options)(W, X)


def operators(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if str(node.target).startswith("futad")]


MODES = ("real", "fake", "symbolic")
QUICK = [(use, "real") for use in USES if use != "hessian"] + [("grad", "fake"), ("value", "symbolic")]


@pytest.mark.parametrize(("use", "mode"), slow_but(QUICK, [(use, mode) for use in USES for mode in MODES]))
def test_traces_have_the_call(prog: Program, use: str, mode: str) -> None:
    """The graph, at other arguments, gives what those give."""
    traced = graph_of(use, futad.torch.function(prog.layer), tracing_mode=mode)
    assert operators(traced)
    w, x = randn(3, 4, seed=2), randn(4, seed=3)
    torch.testing.assert_close(traced(w, x), USES[use](own, w, x))


def test_compiled_code_is_in_traces_too(prog: Program) -> None:
    layer = futad.torch.function(futad.compile(SOURCE, "net.fut", backend="c").layer)
    layer(W, X)  # from now on calls go to the C at once
    for options in ({}, {"pre_dispatch": True}):
        traced = graph_of("value", layer, tracing_mode="real", **options)
        assert len(operators(traced)) == 1
        torch.testing.assert_close(traced(W + 1, X), own(W * 2 + 2, X).sum())


def test_operators_of_records_and_numbers_are_traced(prog: Program) -> None:
    loss, copies = futad.torch.function(prog.loss), futad.torch.function(prog.copies)
    a, x = randn(4), randn(4, seed=1)
    traced = make_fx(lambda a, x: loss({"a": a, "b": 0.5, "k": 2}, x))(a, x)
    torch.testing.assert_close(traced(x, a), loss({"a": x, "b": 0.5, "k": 2}, a))
    assert make_fx(lambda: copies(3, 2.0))()().tolist() == [4.0] * 3
    with pytest.raises(UsageError, match="argument 'k' of copies is read when a call is traced"):
        make_fx(lambda k: copies(k, 2.0))(torch.tensor(3))
    found = torch.fx.symbolic_trace(lambda w, x: futad.torch.function(prog.layer)(w, x))
    torch.testing.assert_close(found(W, X), own(W, X))


class Watching(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(f))
        return f(*args, **(kwargs or {}))


def test_dispatch_modes_see_calls_and_their_derivatives(prog: Program) -> None:
    layer, w = futad.torch.function(prog.layer), W.clone().requires_grad_()
    with Watching() as outer, Watching() as inner:
        layer(w, X).sum().backward()
    mine = [s for s in outer.seen if s.startswith("futad")]
    assert mine == [s for s in inner.seen if s.startswith("futad")] and len(mine) == 2
    torch.testing.assert_close(w.grad, grad(lambda w: own(w, X).sum())(W))


class Logged(torch.Tensor):
    """A class that dispatches itself."""

    inner: Any

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Logged(f(*[a.inner if isinstance(a, Logged) else a for a in args], **(kwargs or {})))


def test_tensors_that_dispatch_themselves(prog: Program) -> None:
    made = futad.torch.function(prog.layer)(Logged(W), X)
    assert type(made) is Logged
    torch.testing.assert_close(made.inner, own(W, X))


# -- tensors without elements


def shapes(tree: Any) -> list[tuple[int, ...]]:
    return [tuple(x.shape) for x in torch.utils._pytree.tree_leaves(tree)]


def calls(prog: Program, empty: Callable[..., Any]) -> dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]]:
    layer, loss, many, narrow, copies = [
        futad.torch.function(prog[n]) for n in ("layer", "loss", "many", "narrow", "copies")
    ]
    w, x = empty(3, 4), empty(4)

    def backward() -> Any:
        w = empty(3, 4).requires_grad_()
        layer(w, x).sum().backward()
        return w.grad

    def of_some() -> Any:
        """Of integers in the result there are no adjoints."""
        x = empty(4).requires_grad_()
        made = many(x, 3)
        return torch.autograd.grad(made.s.sum() + made.t[0], x)

    return {
        "call": (lambda: layer(w, x), [(3,)]),
        "record": (lambda: many(x, 3), [(4,), (), (), ()]),
        "numbers": (lambda: loss({"a": x, "b": 0.5, "k": 2}, x), [()]),
        "a size": (lambda: copies(5, empty()), [(5,)]),
        "converted": (lambda: narrow(empty(2, dtype=torch.float16), 1.0), [(2,)]),
        "backward": (backward, [(3, 4)]),
        "integers": (of_some, [(4,)]),
        "grad": (lambda: grad(lambda w: layer(w, x).sum())(w), [(3, 4)]),
        "vmap": (lambda: vmap(lambda w: layer(w, x))(empty(5, 3, 4)), [(5, 3)]),
        "jvp": (lambda: jvp(lambda x: layer(w, x), (x,), (x,)), [(3,), (3,)]),
    }


def test_fake_tensors(prog: Program) -> None:
    mode = FakeTensorMode()

    def empty(*shape: int, dtype: Any = F64) -> Any:
        with mode:
            return torch.empty(shape, dtype=dtype)

    for name, (call, expected) in calls(prog, empty).items():
        outside = call()
        with mode:
            made = call()
        for tree in (outside, made):
            assert shapes(tree) == expected, name
            assert all(isinstance(x, FakeTensor) for x in torch.utils._pytree.tree_leaves(tree)), name
    with FakeTensorMode(shape_env=ShapeEnv()):
        (size,) = futad.torch.function(prog.positive)(torch.empty(4, dtype=F64)).shape
        assert isinstance(size, torch.SymInt)


def test_meta_tensors(prog: Program) -> None:
    def empty(*shape: int, dtype: Any = F64) -> Any:
        return torch.empty(shape, dtype=dtype, device="meta")

    for name, (call, expected) in calls(prog, empty).items():
        made = call()
        assert shapes(made) == expected and all(x.is_meta for x in torch.utils._pytree.tree_leaves(made)), name
    layer = futad.torch.Module(prog.layer, w=empty(3, 4))
    assert layer(empty(4)).is_meta and futad.torch.function(prog.layer)(empty(3, 4), X).is_meta
    with pytest.raises(UsageError, match="the shape of the result of positive is found by running it"):
        futad.torch.function(prog.positive)(empty(4))
    with pytest.raises(UsageError, match="argument 'k' of copies is read when a call is traced"):
        futad.torch.function(prog.copies)(empty(dtype=torch.int64), 2.0)


def test_wrong_tensors_without_elements_are_named(prog: Program) -> None:
    layer, narrow = futad.torch.function(prog.layer), futad.torch.function(prog.narrow)
    with FakeTensorMode():
        fakes = [torch.empty(*s, dtype=F64) for s in ((3, 4), (5,))]
    metas = [torch.empty(*s, dtype=F64, device="meta") for s in ((3, 4), (5,))]
    for w, x in (fakes, metas):
        with pytest.raises(ShapeError, match="argument 'x' of layer: dimension 0 is 5"):
            layer(w, x)
        with pytest.raises(ShapeError, match="argument 'x': expected .*f64, which has rank 1, got a tensor of shape"):
            layer(w, w)
        with pytest.raises(DtypeError, match="argument 'x': expected .*float32.*got a tensor of torch.float64"):
            narrow(x, 1.0)


# -- transformations and compilers


def test_records_are_pytrees(prog: Program) -> None:
    many = futad.torch.function(prog.many)
    made = vmap(lambda x: many(x, 3))(W)
    assert type(made) is futad.Record and made.t[1].tolist() == [True] * 3
    torch.testing.assert_close(made.s, W.sin())
    _, aux = grad(lambda x: (many(x, 3).s.sum(), many(x, 4)), has_aux=True)(X)
    assert type(aux) is futad.Record and aux.k == 5


def test_functionalize_with_derivatives_is_refused(prog: Program) -> None:
    layer = futad.torch.function(prog.layer)
    for f in (functionalize(grad(lambda w: layer(w, X).sum())), grad(functionalize(lambda w: layer(w, X).sum()))):
        with pytest.raises(UsageError, match="torch.func.functionalize of an entry cannot be differentiated"):
            f(W)


REFUSED = f"""
import torch, futad, futad.torch
layer = futad.torch.function(futad.compile({SOURCE!r}, backend="interp").layer)

class Derived(torch.nn.Module):
    def forward(self, w, x):
        return torch.func.grad(lambda w: layer(w, x).sum())(w)

x = torch.ones(4, dtype=torch.float64)
try:
    torch.export.export(Derived(), (torch.stack([x, x]), x), strict=STRICT)
except Exception as e:
    print(e)
"""


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_derivatives_within_exported_code_are_refused(strict: bool) -> None:
    """PyTorch would put constants in their place, also in functions of its own.  It does not end its transformations
    after an error there, so another process tries that."""
    code = REFUSED.replace("STRICT", str(strict))
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "torch.func inside of torch.export (or of make_fx with pre_dispatch) is not supported" in made.stdout


@pytest.mark.slow
def test_aot_autograd(prog: Program) -> None:
    from functorch.compile import aot_function, nop

    layer, w = futad.torch.function(prog.layer), W.clone().requires_grad_()
    aot_function(lambda w, x: layer(w, x).square().sum(), fw_compiler=nop, bw_compiler=nop)(w, X).backward()
    torch.testing.assert_close(w.grad, by_autograd(own, W, X))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("use", [u for u in USES if "functionalize" not in u])
def test_transformations_inside_of_compiled_code(prog: Program, use: str, backend: str) -> None:
    layer = futad.torch.function(prog.layer)
    torch._dynamo.reset()
    made = torch.compile(lambda w, x: USES[use](layer, w, x), fullgraph=use != "autograd", backend=backend)
    for n in (4, 5, 6):
        w, x = randn(3, n, seed=n), randn(n, seed=n + 10)
        torch.testing.assert_close(made(w, x), USES[use](own, w, x))


class Uses(torch.nn.Module):
    def __init__(self, layer: Any, many: Any, slope: Any) -> None:
        super().__init__()
        self.layer, self.many, self.slope = layer, many, slope

    def forward(self, w: Any, x: Any) -> Any:
        return self.many(self.layer(w, x), 3), self.slope(w, x)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs(prog: Program, strict: bool) -> None:
    """With a record as its result, and a derivative; written to a file and read again."""
    slope = futad.torch.function(futad.jacrev(prog.layer))
    uses = Uses(futad.torch.function(prog.layer), futad.torch.function(prog.many), slope)
    n = torch.export.Dim("n", min=2, max=100)
    exported = torch.export.export(uses, (W, X), strict=strict, dynamic_shapes=({1: n}, {0: n}))
    file = io.BytesIO()
    torch.export.save(exported.run_decompositions(), file)
    file.seek(0)
    w, x = randn(3, 6, seed=2), randn(6, seed=3)
    for again in (exported, torch.export.load(file)):
        made, slope = again.module()(w, x)
        assert type(made) is futad.Record and made.k == 4
        torch.testing.assert_close(made.s, own(w, x).sin())
        torch.testing.assert_close(slope, torch.func.jacrev(own)(w, x))


@pytest.mark.slow
@pytest.mark.parametrize("use", ["grad", "jvp", "vmap"])
def test_the_operators_of_derivatives_pass_opcheck(prog: Program, use: str) -> None:
    made = {"grad": prog.layer.derivative("vjp", (0, 1)), "jvp": prog.layer.derivative("jvp", (1,)),
            "vmap": futad.vmap(prog.layer, (None, 0))}[use]  # fmt: skip
    args = {"grad": (W, X, randn(3)), "jvp": (W, X, X), "vmap": (W, torch.stack([X, X]))}[use]
    found = torch.library.opcheck(futad.torch.function(made).op, tuple([a.clone().requires_grad_() for a in args]))
    assert set(found.values()) == {"SUCCESS"}
