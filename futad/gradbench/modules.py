"""What GradBench asks for: modules, their functions, and how inputs and outputs look in JSON.

Each module is a program of `benchmarks/programs/`.  A function prepares its input and returns what is to be
timed and what makes JSON of its result; the forms are those that the suite's evals send and check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from futad.api.program import Program
from futad.errors import FileError, UsageError

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Task:
    """A function applied to an input: `compute` is timed, `output` makes JSON of what it returns."""

    compute: Callable[[], list[Any]]
    output: Callable[[list[Any]], Any]


Function = Callable[[Program, Any], Task]


@dataclass(frozen=True, slots=True)
class Module:
    """The program (its name in `benchmarks/programs/`) and the functions of one module."""

    program: str
    functions: Mapping[str, Function]

    def path(self) -> Path:
        """The program's file: in an installed wheel, or in a checkout.  Raises FileError."""
        package = Path(__file__).resolve().parent.parent
        for folder in (package / "programs", package.parent / "benchmarks" / "programs"):
            file = folder / f"{self.program}.fut"
            if file.is_file():
                return file
        raise FileError(f"the program {self.program}.fut is not installed with futad")


def module(name: str) -> Module:
    """The module of that name.  Raises UsageError."""
    if name not in MODULES:
        raise UsageError(f"no module is called {name!r}; there are: {', '.join(MODULES)}")
    return MODULES[name]


def function(module_name: str, name: str) -> Function:
    """The function of that name in a module.  Raises UsageError."""
    functions = module(module_name).functions
    if name not in functions:
        raise UsageError(f"module {module_name} has no function {name!r}; there are: {', '.join(functions)}")
    return functions[name]


# --- Reading inputs ----------------------------------------------------------------------------------


def field(data: Any, name: str) -> Any:
    """A field of an input.  Raises UsageError if it is not there."""
    if not isinstance(data, dict) or name not in data:
        raise UsageError(f"the input has no field {name!r}")
    return data[name]


def floats(data: Any, name: str, *shape: int) -> Array:
    """A field with (nested lists of) numbers as f64; -1 in `shape` fits any size.  Raises UsageError."""
    value = field(data, name)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise UsageError(f"field {name!r} is not an array of numbers: {e}") from None
    if array.size == 0 and array.ndim != len(shape):
        # Nothing tells how wide the rows of an empty list are; the shape asked for does, where it is known.
        return np.zeros([max(0, s) for s in shape])
    if array.ndim != len(shape) or any(s not in (-1, n) for s, n in zip(shape, array.shape, strict=True)):
        wanted = "".join(f"[{s}]" if s >= 0 else "[]" for s in shape)
        raise UsageError(f"field {name!r} has shape {array.shape}, not {wanted or 'that of a number'}")
    return array


def integers(data: Any, name: str, *shape: int, dtype: Any = np.int32) -> Array:
    """A field with (nested lists of) integers.  Raises UsageError."""
    array = floats(data, name, *shape)
    whole = array.astype(dtype)
    if not np.array_equal(whole, array):
        raise UsageError(f"field {name!r} holds a number that is not an integer of type {np.dtype(dtype)}")
    return whole


def integer(data: Any, name: str, least: int) -> int:
    """A field with an integer that is at least `least`.  Raises UsageError."""
    value = int(integers(data, name, dtype=np.int64))
    if value < least:
        raise UsageError(f"field {name!r} is {value}; it must be at least {least}")
    return value


# --- Making tasks ------------------------------------------------------------------------------------


def call(program: Program, entry: str, *args: Any) -> Callable[[], list[Any]]:
    """An entry with its arguments checked and converted, ready to run (several times)."""
    f = program[entry]
    flat = f.signature.flatten(args)
    return lambda: f.signature.visible(f.executable.run(f.symbol, flat))


def number(results: list[Any]) -> float:
    """The only result."""
    return float(results[0])


def nested(results: list[Any]) -> Any:
    """The only result, an array, as nested lists."""
    return np.asarray(results[0]).tolist()


def joined(results: list[Any]) -> list[float]:
    """All results, each flattened, one behind the other."""
    return np.concatenate([np.ravel(r) for r in results]).tolist()


def simple(entry: str, read: Callable[[Any], tuple[Any, ...]], output: Callable[[list[Any]], Any]) -> Function:
    """A function that is an entry of the program."""
    return lambda program, data: Task(call(program, entry, *read(data)), output)


# --- Modules -----------------------------------------------------------------------------------------


def _gmm(data: Any) -> tuple[Any, ...]:
    d, k, n = (integer(data, name, 1) for name in ("d", "k", "n"))
    lower = floats(data, "l", k, d * (d - 1) // 2) if d > 1 else np.zeros((k, 0))
    factors = np.concatenate([floats(data, "q", k, d), lower], axis=1)
    x, gamma = floats(data, "x", n, d), float(floats(data, "gamma"))
    return floats(data, "alpha", k), floats(data, "mu", k, d), factors, x, gamma, integer(data, "m", 0)


def _gmm_jacobian(program: Program, data: Any) -> Task:
    d = integer(data, "d", 1)

    def output(results: list[Any]) -> Any:
        alpha, mu, factors = results
        parts = {"alpha": alpha, "mu": mu, "q": factors[:, :d], "l": factors[:, d:]}
        return {name: part.tolist() for name, part in parts.items()}

    return Task(call(program, "gradient", *_gmm(data)), output)


def _ba(data: Any) -> tuple[Array, ...]:
    """One camera, point, weight and feature stand for all; observation i is of point i mod m by camera i
    mod n."""
    n, m, p = (integer(data, name, 1) for name in ("n", "m", "p"))
    seen = np.arange(p)
    return (
        np.tile(floats(data, "cam", 11), (n, 1)),
        np.tile(floats(data, "x", 3), (m, 1)),
        np.full(p, float(floats(data, "w"))),
        np.stack([seen % n, seen % m], axis=1).astype(np.int32),
        np.tile(floats(data, "feat", 2), (p, 1)),
    )


def _ba_objective(results: list[Any]) -> Any:
    errors, weight_errors = results
    return {
        "reproj_error": {"elements": errors[0].tolist(), "repeated": len(errors)},
        "w_err": {"element": float(weight_errors[0]), "repeated": len(weight_errors)},
    }


def _ba_jacobian(results: list[Any]) -> Any:
    """Of each array the entries of the first observation and the last entry."""
    named = zip(("rows", "cols", "vals"), results, strict=True)
    return {name: [*a[:30].tolist(), a[-1].item()] for name, a in named}


def _hand(data: Any) -> tuple[str, tuple[Any, ...]]:
    """Which variant it is, and its arguments."""
    theta, rest = floats(data, "theta", 26), field(data, "data")
    model = field(rest, "model")
    parents = integers(model, "parents", -1)
    correspondences = integers(rest, "correspondences", -1)
    bones, points = len(parents), len(correspondences)
    skeleton = (
        parents,
        floats(model, "base_relatives", bones, 4, 4),
        floats(model, "inverse_base_absolutes", bones, 4, 4),
        floats(model, "base_positions", -1, 4),
        floats(model, "weights", -1, bones),
        bool(field(model, "is_mirrored")),
    )
    measured = (correspondences, floats(rest, "points", points, 3), theta)
    if np.size(data.get("us", ())) == 0:
        return "simple", (*skeleton, *measured)
    triangles = integers(model, "triangles", -1, 3)
    return "complicated", (*skeleton, triangles, *measured, floats(data, "us", points, 2))


def _hand_objective(program: Program, data: Any) -> Task:
    variant, args = _hand(data)
    return Task(call(program, f"{variant}_objective", *args), joined)


def _hand_jacobian(program: Program, data: Any) -> Task:
    """A column a parameter: us (if there are any) before theta."""
    variant, args = _hand(data)

    def output(results: list[Any]) -> Any:
        return np.concatenate([r.reshape(len(r), -1) for r in results]).T.tolist()

    return Task(call(program, f"{variant}_jacobian", *args), output)


def _lstm(data: Any) -> tuple[Array, ...]:
    main = floats(data, "main_params", -1, -1)
    bits = main.shape[1] // 4
    state = floats(data, "state", len(main), bits)
    return main, floats(data, "extra_params", 3, bits), state, floats(data, "sequence", -1, bits)


def _kmeans(data: Any) -> tuple[Array, Array]:
    points = floats(data, "points", -1, -1)
    return points, floats(data, "centroids", -1, points.shape[1])


def _kmeans_direction(program: Program, data: Any) -> Task:
    """Newton's direction, the gradient over the Hessian's diagonal: the step from where it leads."""
    points, centroids = _kmeans(data)
    step = call(program, "newton_step", points, centroids)
    return Task(lambda: [centroids - step()[0]], nested)


def _det(data: Any) -> tuple[int, Array]:
    ell = integer(data, "ell", 1)
    return ell, floats(data, "A", ell * ell)


def _vector(data: Any) -> tuple[Array]:
    return (floats(data, "x", -1),)


def _llsq(data: Any) -> tuple[Array, int]:
    return floats(data, "x", -1), integer(data, "n", 2)


def _ode(data: Any) -> tuple[Array, int]:
    return floats(data, "x", -1), integer(data, "s", 1)


def _hello(data: Any) -> tuple[float]:
    return (float(floats({"input": data}, "input")),)


def _modes(read: Callable[[Any], tuple[Any, ...]], output: Callable[[list[Any]], Any]) -> dict[str, Function]:
    """Nested derivatives, outer and inner one each by forward or reverse mode."""
    return {name: simple(name, read, output) for name in ("ff", "fr", "rf", "rr")}


MODULES: dict[str, Module] = {
    "hello": Module("hello", {"square": simple("square", _hello, number), "double": simple("double", _hello, number)}),
    "gmm": Module("gmm", {"objective": simple("objective", _gmm, number), "jacobian": _gmm_jacobian}),
    "ba": Module(
        "ba",
        {
            "objective": simple("objective", _ba, _ba_objective),
            "jacobian": simple("jacobian", _ba, _ba_jacobian),
        },
    ),
    "ht": Module("hand", {"objective": _hand_objective, "jacobian": _hand_jacobian}),
    "lstm": Module(
        "dlstm", {"objective": simple("objective", _lstm, number), "jacobian": simple("gradient", _lstm, joined)}
    ),
    "kmeans": Module("kmeans", {"cost": simple("objective", _kmeans, number), "dir": _kmeans_direction}),
    "llsq": Module("llsq", {"primal": simple("primal", _llsq, number), "gradient": simple("gradient", _llsq, nested)}),
    "lse": Module(
        "lse", {"primal": simple("primal", _vector, number), "gradient": simple("gradient", _vector, nested)}
    ),
    "det": Module("det", {"primal": simple("primal", _det, number), "gradient": simple("gradient", _det, nested)}),
    "ode": Module("ode", {"primal": simple("primal", _ode, nested), "gradient": simple("gradient", _ode, nested)}),
    "particle": Module("particle", _modes(lambda data: (float(floats(data, "w")),), number)),
    "saddle": Module("saddle", _modes(lambda data: (floats(data, "start", 2),), nested)),
}
