"""futad gradbench: the messages of all evals against NumPy, and the protocol."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from reference import adbench_forms as af
from reference import closed_forms as cf

from futad.gradbench.modules import MODULES, module
from futad.gradbench.protocol import Tool
from tests.support.needs import needs_cc

Array = np.ndarray[Any, np.dtype[Any]]
ONCE = {"min_runs": 1, "min_seconds": 0}


@pytest.fixture(scope="module")
def tool() -> Tool:
    return Tool("c")


def ask(tool: Tool, **message: Any) -> dict[str, Any]:
    """The response to a message; its id must be the message's."""
    line = json.dumps({"id": 7} | message)
    assert "\n" not in line
    answer = tool.answer(line)
    assert "\n" not in answer
    response = json.loads(answer)
    assert response.pop("id") == 7
    return response


def evaluate(tool: Tool, module: str, function: str, data: Any) -> Any:
    """The output of an evaluation that must succeed."""
    response = ask(tool, kind="evaluate", module=module, function=function, input=data, description="x")
    assert response["success"], response
    assert {t["name"] for t in response["timings"]} == {"evaluate"}
    assert all(isinstance(t["nanoseconds"], int) and t["nanoseconds"] > 0 for t in response["timings"])
    return response["output"]


def close(actual: Any, expected: Any) -> None:
    """Nested lists of numbers (not arrays) of the same shape and values."""
    assert isinstance(actual, list | float)
    a, e = np.array(actual), np.array(expected)
    assert a.shape == e.shape
    np.testing.assert_allclose(a, e, rtol=0, atol=1e-10 * max(1, np.abs(e).max(initial=0)))


def test_hello_interpreted() -> None:
    tool = Tool("interp")
    assert evaluate(tool, "hello", "square", 3.0) == 9.0
    assert evaluate(tool, "hello", "double", 3) == 6.0


# --- The evals ---------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("d, k, n, m", [(3, 2, 5, 0), (1, 2, 4, 3)])
def test_gmm(tool: Tool, d: int, k: int, n: int, m: int) -> None:
    r = np.random.default_rng(1)
    x, alpha, mu = r.normal(size=(n, d)), r.normal(size=k), r.random((k, d))
    q, lower = r.normal(size=(k, d)), r.normal(size=(k, d * (d - 1) // 2))
    data = {"d": d, "k": k, "n": n, "m": m, "gamma": 1.5, "x": x.tolist(), "alpha": alpha.tolist()}
    data |= {"mu": mu.tolist(), "q": q.tolist(), "l": lower.tolist()} | ONCE
    args = (alpha, mu, np.concatenate([q, lower], axis=1), x, 1.5, m)
    close(evaluate(tool, "gmm", "objective", data), cf.gmm_objective(*args))
    jacobian = evaluate(tool, "gmm", "jacobian", data)
    assert list(jacobian) == ["alpha", "mu", "q", "l"]
    d_alpha, d_mu, d_factors = cf.gmm_gradient(*args)
    for actual, expected in zip(jacobian.values(), (d_alpha, d_mu, d_factors[:, :d], d_factors[:, d:]), strict=True):
        close(actual, expected)


@needs_cc
@pytest.mark.slow
def test_ba(tool: Tool) -> None:
    n, m, p = 2, 3, 4
    cam = [0.1, -0.2, 0.3, 0.5, 0.1, -0.4, 2.0, 0.3, 0.2, 0.05, -0.02]
    data = {"n": n, "m": m, "p": p, "cam": cam, "x": [0.3, 0.4, 5.0], "w": 0.7, "feat": [1.0, -1.0]} | ONCE
    args = (np.array([cam]), np.array([[0.3, 0.4, 5.0]]), np.array([0.7]), [(0, 0)], np.array([[1.0, -1.0]]))
    errors, jacobian = af.ba_errors(*args), af.ba_jacobian(*args)
    objective = evaluate(tool, "ba", "objective", data)
    assert list(objective) == ["reproj_error", "w_err"]
    close(objective["reproj_error"].pop("elements"), errors[:2])
    close(objective["w_err"].pop("element"), errors[2])
    assert objective == {"reproj_error": {"repeated": p}, "w_err": {"repeated": p}}
    out = evaluate(tool, "ba", "jacobian", data)
    assert list(out) == ["rows", "cols", "vals"]
    # Three times p + 1 starts of rows, of which all 13 fit in the first 30.
    assert out["rows"] == [0, 15, 30, 45, 60, 75, 90, 105, 120, 121, 122, 123, 124, 124]
    block = [*range(11), 22, 23, 24, 31]
    assert out["cols"] == [*block, *block, 11 * n + 3 * m + p - 1]
    close(out["vals"], [*jacobian[:2].ravel(), jacobian[2, -1]])


def hand_input(complicated: bool) -> tuple[dict[str, Any], Any]:
    """A message's input, and the errors as a function of theta and us."""
    r = np.random.default_rng(2)
    parents = [-1, *[i // 2 for i in range(21)]]
    frames = 0.5 * r.normal(size=(2, 22, 4, 4))
    frames[:, :, 3] = [0, 0, 0, 1]
    positions = np.concatenate([r.normal(size=(6, 3)), np.ones((6, 1))], axis=1)
    weights, triangles, points = r.random((6, 22)), r.integers(6, size=(5, 3)), r.normal(size=(4, 3))
    which = np.array([0, 3, 4, 2])
    data = {
        "theta": (0.3 * r.normal(size=26)).tolist(),
        "data": {
            "model": {
                "bone_count": 22,
                "bone_names": [f"bone{i}" for i in range(22)],
                "parents": parents,
                "base_relatives": frames[0].tolist(),
                "inverse_base_absolutes": frames[1].tolist(),
                "base_positions": positions.tolist(),
                "weights": weights.tolist(),
                "triangles": triangles.tolist(),
                "is_mirrored": False,
            },
            "correspondences": which.tolist(),
            "points": points.tolist(),
        },
        "us": r.random((4, 2)).tolist() if complicated else [],
    } | ONCE
    model = (np.array(parents), *frames, positions, weights, False)
    return data, lambda theta, us: af.hand_errors(model, triangles, which, points, theta, us)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("complicated", [False, True])
def test_ht(tool: Tool, complicated: bool) -> None:
    data, errors = hand_input(complicated)
    theta = np.array(data["theta"])
    us = np.array(data["us"]) if complicated else None
    close(evaluate(tool, "ht", "objective", data), errors(theta, us).ravel())
    expected = af.complex_step(lambda th: errors(th, us), theta)
    if us is not None:
        seeds = [np.tile(s, (4, 1)) for s in ([1, 0], [0, 1])]
        columns = [errors(theta, us + 1e-30j * s).imag.ravel() / 1e-30 for s in seeds]
        expected = np.concatenate([np.stack(columns, axis=1), expected], axis=1)
    close(evaluate(tool, "ht", "jacobian", data), expected)


@pytest.mark.slow
@needs_cc
def test_lstm(tool: Tool) -> None:
    r = np.random.default_rng(3)
    args = [r.random(s) for s in ((4, 12), (3, 3), (4, 3))] + [(r.random((5, 3)) > 0.5).astype(float)]
    names = ("main_params", "extra_params", "state", "sequence")
    data = {name: a.tolist() for name, a in zip(names, args, strict=True)} | ONCE
    close(evaluate(tool, "lstm", "objective", data), af.dlstm_loss(*args))
    d_main = af.complex_step(lambda a: af.dlstm_loss(a, *args[1:]), args[0])[0]
    d_extra = af.complex_step(lambda a: af.dlstm_loss(args[0], a, *args[2:]), args[1])[0]
    close(evaluate(tool, "lstm", "jacobian", data), [*d_main, *d_extra])


@pytest.mark.slow
@needs_cc
def test_kmeans(tool: Tool) -> None:
    points = np.random.default_rng(4).random((12, 2))
    centroids = points[-3:]
    data = {"points": points.tolist(), "centroids": centroids.tolist()} | ONCE
    distances = ((points[:, None] - centroids) ** 2).sum(axis=2)
    close(evaluate(tool, "kmeans", "cost", data), distances.min(axis=1).sum())
    nearest = distances.argmin(axis=1)
    means = np.array([points[nearest == j].mean(axis=0) for j in range(3)])
    close(evaluate(tool, "kmeans", "dir", data), centroids - means)


@pytest.mark.slow
@needs_cc
def test_small_ones(tool: Tool) -> None:
    x = np.random.default_rng(5).random(4)
    t = np.linspace(-1, 1, 6)
    powers = np.vander(t, 4, increasing=True)
    residual = np.sign(t) - powers @ x
    close(evaluate(tool, "llsq", "primal", {"x": x.tolist(), "n": 6} | ONCE), 0.5 * residual @ residual)
    close(evaluate(tool, "llsq", "gradient", {"x": x.tolist(), "n": 6} | ONCE), -powers.T @ residual)
    close(evaluate(tool, "lse", "primal", {"x": x.tolist()} | ONCE), np.log(np.exp(x).sum()))
    close(evaluate(tool, "lse", "gradient", {"x": x.tolist()} | ONCE), np.exp(x) / np.exp(x).sum())
    a = np.random.default_rng(6).random((3, 3))
    det = np.linalg.det(a)
    data = {"A": a.ravel().tolist(), "ell": 3} | ONCE
    close(evaluate(tool, "det", "primal", data), det)
    close(evaluate(tool, "det", "gradient", data), (det * np.linalg.inv(a).T).ravel())
    y = af.ode_solution(x, 3)
    close(evaluate(tool, "ode", "primal", {"x": x.tolist(), "s": 3} | ONCE), y)
    close(evaluate(tool, "ode", "gradient", {"x": x.tolist(), "s": 3} | ONCE), y[-1] / x)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("mode", ["ff", "fr", "rf", "rr"])
def test_nested(tool: Tool, mode: str) -> None:
    """The values that GradBench's evals expect, which depend on every step of the descent."""
    close(evaluate(tool, "particle", mode, {"w": 0.0} | ONCE), 0.2071918746486116)
    close(evaluate(tool, "saddle", mode, {"start": [1.0, 1.0]} | ONCE), [8.246324826140356e-06] * 4)


def test_programs_are_there() -> None:
    evals = {"hello", "gmm", "ba", "ht", "lstm", "kmeans", "llsq", "lse", "det", "ode", "particle", "saddle"}
    assert set(MODULES) == evals
    assert all(module(name).path().is_file() for name in MODULES)


# --- The protocol ------------------------------------------------------------------------------------


def conversation(lines: Iterable[str]) -> tuple[int, list[dict[str, Any]]]:
    """What `futad gradbench` answers to lines on its stdin, and its exit status at their end."""
    done = subprocess.run(
        [sys.executable, "-m", "futad", "gradbench", "-b", "interp"],
        input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_conversation() -> None:
    messages = [
        {"id": 0, "kind": "start", "eval": "hello", "config": {"x": [1]}},
        {"id": 1, "kind": "define", "module": "hello"},
        {"id": 2, "kind": "evaluate", "module": "hello", "function": "square", "input": 1.5},
        {"id": 3, "kind": "analysis", "of": 2, "valid": False, "error": "no"},
        {"id": 4, "kind": "evaluate", "module": "hello", "function": "double", "input": 2.25, "description": "d"},
        {"id": 5, "kind": "define", "module": "nothing"},
    ]
    code, responses = conversation(["", *map(json.dumps, messages), "{nonsense", json.dumps(messages[3])])
    assert code == 0
    assert [r["id"] for r in responses] == [0, 1, 2, 3, 4, 5, None, 3]
    start, define, square, analysis, double, nothing, nonsense, last = responses
    assert start["tool"] == "futad"
    assert define["success"] is True and define["timings"][0]["nanoseconds"] > 0
    assert square["success"] is True and square["output"] == 2.25 and len(square["timings"]) == 1
    assert analysis == last | {"id": 3} == {"id": 3}
    assert double["output"] == 4.5
    assert nothing["success"] is False and "nothing" in nothing["error"] and "kmeans" in nothing["error"]
    assert nonsense["success"] is False and "JSON" in nonsense["error"]


@pytest.mark.slow
def test_end_of_input() -> None:
    assert conversation([]) == (0, [])


@pytest.mark.parametrize("id", [3, "three", None, 1.5, [1]])
def test_any_id_comes_back(id: Any) -> None:
    assert json.loads(Tool("interp").answer(json.dumps({"id": id, "kind": "analysis", "of": 1, "valid": True}))) == {
        "id": id
    }


@needs_cc
@pytest.mark.parametrize(
    "limits, least_runs, least_time",
    [
        ({}, 1, 0),
        ({"min_runs": 4}, 4, 0),
        ({"min_runs": 4, "min_seconds": 0}, 4, 0),
        ({"min_runs": 1, "min_seconds": 0.05}, 2, 0.05),
        ({"min_runs": 0, "min_seconds": 0}, 1, 0),
    ],
)
def test_runs(tool: Tool, limits: dict[str, Any], least_runs: int, least_time: float) -> None:
    data = {"x": [1.0, 2.0]} | limits
    response = ask(tool, kind="evaluate", module="lse", function="primal", input=data)
    nanoseconds = [t["nanoseconds"] for t in response["timings"]]
    assert len(nanoseconds) >= least_runs
    assert sum(nanoseconds) >= least_time * 1e9
    if least_time:
        # It stopped as soon as the time was over.
        assert sum(nanoseconds[:-1]) < least_time * 1e9
    else:
        assert len(nanoseconds) == least_runs


@pytest.mark.slow
@pytest.mark.parametrize(
    "message, words",
    [
        ({"kind": "define"}, "no 'module'"),
        ({"kind": "evaluate", "module": "hello", "input": 1.0}, "no 'function'"),
        ({"kind": "evaluate", "module": "nope", "function": "f", "input": 1.0}, "no module"),
        ({"kind": "evaluate", "module": "hello", "function": "cube", "input": 1.0}, "square, double"),
        ({"kind": "evaluate", "module": "hello", "function": "square", "input": "one"}, "number"),
        ({"kind": "evaluate", "module": "hello", "function": "square", "input": [1.0]}, "shape"),
        ({"kind": "evaluate", "module": "hello", "function": "square"}, "number"),
        ({"kind": "evaluate", "module": "hello", "function": "square", "input": 1e200}, "finite"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": {}}, "no field 'x'"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": [1.0]}, "no field 'x'"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": [[1], [2, 3]]}}, "'x'"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": [1], "min_runs": "a"}}, "min_runs"),
        ({"kind": "evaluate", "module": "det", "function": "primal", "input": {"A": [1, 2], "ell": 2}}, "shape"),
        ({"kind": "evaluate", "module": "ode", "function": "primal", "input": {"x": [1], "s": 0}}, "at least 1"),
        ({"kind": "evaluate", "module": "ode", "function": "primal", "input": {"x": [1], "s": 1.5}}, "integer"),
        ({"kind": "evaluate", "module": "ht", "function": "objective", "input": {"theta": [0.0] * 26}}, "'data'"),
    ],
)
def test_errors_are_told(message: dict[str, Any], words: str) -> None:
    response = ask(INTERPRETED, **message)
    assert response["success"] is False
    assert words in response["error"]
    assert "internal" not in response["error"]


INTERPRETED = Tool("interp")


@pytest.mark.slow
@needs_cc
def test_errors_of_programs_are_told(tool: Tool) -> None:
    """A correspondence outside the model stops the program, not the tool."""
    data, _ = hand_input(False)
    data["data"]["correspondences"][1] = 99
    response = ask(tool, kind="evaluate", module="ht", function="objective", input=data)
    assert response["success"] is False
    assert "99" in response["error"] and "hand.fut" in response["error"]
    assert math.isclose(evaluate(tool, "hello", "square", 2.0), 4.0)
