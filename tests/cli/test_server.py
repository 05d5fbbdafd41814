"""futad c --server: Futhark's server protocol, driven by the public client."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from futad.runtime.textvalues import Reader, binary_bytes
from tests.support.needs import needs_cc
from tests.support.paths import ROOT
from tests.support.slow import slow_but

futhark_server = pytest.importorskip("futhark_server")
pytestmark = needs_cc

PROGRAM = """
type point = {x: f64, y: i32}
type shape = #circle f64 | #none | #rect f64 f64

#[fast] #[level(2)]
entry scale [n] (k: f64) (xs: [n]f64): [n]f64 = map (* k) xs
entry sum_and_count [n] (xs: [n]i32): (i32, i64) = (i32.sum xs, n)
entry step [n] (xs: *[n]i32): *[n]i32 = xs with [0] = xs[0] + 1
entry swap (p: point): {a: i32, b: f64} = {a = p.y, b = p.x}
entry points (n: i64): [n]point = map (\\i -> {x = f64.i64 i / 2, y = i32.i64 i}) (iota n)
entry norms [n] (ps: [n]point): [n]f64 = map (\\p -> p.x + f64.i32 p.y) ps
entry tables [n] (xs: [n](i32, [2]f64)): f64 = f64.sum (map (\\(i, r) -> f64.i32 i * f64.sum r) xs)
entry grid (n: i64): [n][n]i64 = tabulate_2d n n (\\i j -> i * n + j)
entry round_trip (s: shape): shape = s
entry grow (s: shape): shape =
  match s case #circle r -> #circle (2 * r) case #rect a b -> #rect (2 * a) (2 * b) case #none -> #none
entry at (xs: []i32) (i: i64): i32 = xs[i]
entry nothing (x: i32): () = ()
entry total (xs: []f64): f64 = f64.sum xs
entry first (x: #a i32 | #b): #a i32 | #c = match x case #a y -> #a y case #b -> #c
"""


@pytest.fixture(scope="module", params=slow_but(["c"], ["c", "multicore"]))
def program(tmp_path_factory, request) -> Path:
    from futad.cli import main

    folder = tmp_path_factory.mktemp("server")
    (folder / "p.fut").write_text(PROGRAM)
    assert main([request.param, str(folder / "p.fut"), "--server", "-o", str(folder / "prog")]) == 0
    return folder / "prog"


@pytest.fixture
def server(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with futhark_server.Server(str(program)) as s:
        yield s


def put(server, name: str, value: np.ndarray | np.generic, kind: str) -> None:
    """A variable made from the value's binary form, which does not depend on the client's own writer."""
    path = Path(f"{name}.in")
    path.write_bytes(binary_bytes(value))
    server.cmd_restore(str(path), (name, kind))


def get(server, *names: str) -> list:
    server.cmd_store("out", *names)
    return [v.data for v in Reader(Path("out").read_bytes(), "out").all()]


def fails(server, text: str, *command: str) -> None:
    with pytest.raises(futhark_server.Failure, match=text):
        server.cmd(*command)
    assert server.cmd_entry_points(), "it goes on after a failure"


@pytest.mark.slow
def test_what_there_is(server):
    assert server.cmd_entry_points()[:3] == ["scale", "sum_and_count", "step"]
    assert server.cmd_inputs("scale") == ["f64", "[]f64"] and server.cmd_output("scale") == ["[]f64"]
    assert server.cmd_inputs("step") == ["*[]i32"] and server.cmd_output("step") == ["*[]i32"]
    assert server.cmd_output("sum_and_count") == ["(i32, i64)"] == server.cmd("outputs", "sum_and_count")
    assert server.cmd_inputs("norms") == ["[]point"] and server.cmd_output("points") == ["[]point"]
    assert {"f64", "[]f64", "point", "[]point", "shape", "{a: i32, b: f64}"} <= set(server.cmd_types())
    assert server.cmd("attributes", "scale") == ["fast", "level(2)"] and server.cmd("attributes", "step") == []
    for name, kind in (("i32", "primitive"), ("[][]i64", "array"), ("[]point", "array"), ("point", "record")):
        assert server.cmd("kind", name) == [kind]
    assert server.cmd("kind", '"(i32, i64)"') == ["record"]
    assert server.cmd("rank", "[][]i64") == ["2"] and server.cmd("elemtype", "[][]i64") == ["i64"]
    assert server.cmd("elemtype", "[]point") == ["point"]
    assert server.cmd_fields("point") == ["x f64", "y i32"]
    assert server.cmd_fields('"(i32, i64)"') == ["0 i32", "1 i64"]
    assert server.cmd("kind", '"{x: f64, y: i32}"') == ["record"], "a type by its structure"


@pytest.mark.slow
def test_a_call_with_the_clients_own_values(server):
    server.put_value("k", np.float64(2.5))
    server.put_value("xs", np.array([1.0, 2.0, 3.0]))
    (runtime,) = server.cmd_call("scale", "ys", "k", "xs")
    assert runtime.startswith("runtime: ") and int(runtime.split()[1]) >= 0
    assert server.get_value("ys").tolist() == [2.5, 5.0, 7.5]
    assert server.get_value("k") == 2.5
    assert server.cmd("type", "ys") == ["[]f64"] and server.cmd("shape", "ys") == ["3"]


@pytest.mark.slow
def test_a_tuple_is_one_output_or_one_for_each_component(server):
    put(server, "xs", np.array([4, 5], np.int32), "[]i32")
    server.cmd_call("sum_and_count", "both", "xs")
    assert get(server, "both") == [9, 2]
    server.cmd_project("first", "both", "0")
    server.cmd_call("sum_and_count", "s", "n", "xs")
    assert get(server, "s", "n", "first") == [9, 2, 9]
    fails(server, "takes 1 inputs", "call", "sum_and_count", "xs")
    fails(server, "already exists: q", "call", "sum_and_count", "q", "q", "xs")
    put(server, "x", np.int32(1), "i32")
    server.cmd_call("nothing", "unit", "x")
    server.cmd_call("nothing", "x")


def test_variables(server):
    put(server, "x", np.int32(7), "i32")
    server.cmd_rename("x", "y")
    assert get(server, "y") == [7]
    fails(server, "Unknown variable: x", "store", "f", "x")
    fails(server, "already exists: y", "rename", "y", "y")
    server.cmd_free("y")
    fails(server, "Unknown variable: y", "free", "y")
    Path("two").write_bytes(binary_bytes(np.int32(1)) + b" [2.5f64, 3] ")
    server.cmd_restore("two", ("a", "i32"), ("b", "[]f64"))
    assert [np.asarray(v).tolist() for v in get(server, "a", "b")] == [1, [2.5, 3.0]]
    fails(server, "already exists: a", "restore", "two", "a", "i32", "c", "[]f64")
    fails(server, "more values than variables", "restore", "two", "c", "i32")
    fails(server, "expected i64, got a binary value", "restore", "two", "d", "i64", "e", "[]f64")
    fails(server, "Failed to open missing: No such file", "restore", "missing", "d", "i64")
    fails(server, "Unknown type: i65", "restore", "two", "d", "i65")
    fails(server, "Failed to open no/such", "store", "no/such/file", "a")


def test_consumed_variables_can_only_be_freed(server):
    put(server, "xs", np.array([1, 2], np.int32), "[]i32")
    server.cmd_call("step", "ys", "xs")
    assert get(server, "ys")[0].tolist() == [2, 2]
    for command in (("store", "f", "xs"), ("call", "step", "zs", "xs"), ("index", "e", "xs", "0")):
        fails(server, "Variable xs has been consumed", *command)
    server.cmd_free("xs")


def test_records(server):
    put(server, "a", np.float64(1.5), "f64")
    put(server, "b", np.int32(3), "i32")
    server.cmd("new", "p", "point", "a", "b")
    assert server.cmd("type", "p") == ["point"]
    server.cmd_call("swap", "q", "p")
    server.cmd_project("qa", "q", "a")
    server.cmd_project("qb", "q", "b")
    assert get(server, "qa", "qb") == [3, 1.5]
    fails(server, "has no field z", "project", "n", "p", "z")
    fails(server, "is not a record", "project", "n", "a", "x")
    fails(server, "has 2 fields, but 1 values", "new", "n", "point", "a")
    fails(server, "Variable b has type i32, expected f64", "new", "n", "point", "b", "a")
    fails(server, "Not a record type: i32", "fields", "i32")


def test_arrays_of_records(server):
    put(server, "n", np.int64(4), "i64")
    server.cmd_call("points", "ps", "n")
    assert server.cmd("shape", "ps") == ["4"]
    server.cmd("index", "p", "ps", "3")
    server.cmd_project("y", "p", "y")
    assert get(server, "y") == [3]
    server.cmd("unzip", "ps", "xs", "ys")
    assert get(server, "xs")[0].tolist() == [0, 0.5, 1, 1.5]
    server.cmd("zip", "qs", "[]point", "xs", "ys")
    server.cmd("set", "qs", "p", "0")
    server.cmd_call("norms", "norms", "qs")
    assert get(server, "norms")[0].tolist() == [4.5, 1.5, 3.0, 4.5]
    server.cmd_call("norms", "before", "ps")
    assert get(server, "before")[0].tolist() == [0, 1.5, 3.0, 4.5], "a set changes one variable alone"
    server.cmd("new_array", "rs", "[]point", "2", "p", "p")
    server.cmd_call("norms", "twice", "rs")
    assert get(server, "twice")[0].tolist() == [4.5, 4.5]
    fails(server, "Index 4 is out of bounds for a dimension of size 4", "index", "e", "ps", "4")
    fails(server, "Index -1 is out of bounds", "index", "e", "ps", "-1")
    fails(server, "2 indices for an array of rank 1", "index", "e", "ps", "0", "0")
    fails(server, "Not an array of records", "unzip", "xs", "a", "b")
    fails(server, "as many values, but there are 1", "new_array", "e", "[]point", "2", "p")
    fails(server, "Not an integer: two", "new_array", "e", "[]point", "two", "p", "p")


def test_records_with_arrays_inside_arrays(server):
    put(server, "i", np.array([1, 2], np.int32), "[]i32")
    put(server, "r", np.array([[1.0, 2.0], [3.0, 4.0]]), "[][]f64")
    kind = f'"{server.cmd_inputs("tables")[0]}"'
    server.cmd("zip", "t", kind, "i", "r")
    server.cmd_call("tables", "sum", "t")
    assert get(server, "sum") == [3.0 + 14.0]
    server.cmd("index", "e", "t", "1")
    server.cmd_project("row", "e", "1")
    assert get(server, "row")[0].tolist() == [3.0, 4.0]
    put(server, "j", np.array([1], np.int32), "[]i32")
    fails(server, "The arrays differ in shape", "zip", "u", kind, "j", "r")


def test_grids(server):
    put(server, "n", np.int64(3), "i64")
    server.cmd_call("grid", "g", "n")
    assert server.cmd("shape", "g") == ["3", "3"]
    server.cmd("index", "e", "g", "1", "2")
    assert get(server, "e") == [5]
    server.cmd("set", "g", "n", "2", "0")
    assert get(server, "g")[0].tolist() == [[0, 1, 2], [3, 4, 5], [3, 7, 8]]
    server.cmd("new_array", "h", "[][]i64", "2", "1", "e", "n")
    assert get(server, "h")[0].tolist() == [[5], [3]]
    server.cmd("new_array", "z", "[][]i64", "0", "0")
    assert get(server, "z")[0].shape == (0, 0)


def test_sum_types_are_records_of_their_parts(server):
    assert server.cmd_fields("shape") == ["# i8", "#circle.0 f64", "#rect.0 f64", "#rect.1 f64"]
    put(server, "tag", np.int8(2), "i8")
    for name, value in (("r", 0.0), ("a", 2.0), ("b", 3.0)):
        put(server, name, np.float64(value), "f64")
    server.cmd("new", "s", "shape", "tag", "r", "a", "b")
    server.cmd_call("grow", "t", "s")
    tag, _, a, b = get(server, "t")
    assert (tag, a, b) == (2, 4.0, 6.0)


def test_sum_types(server):
    assert server.cmd("kind", "shape") == ["sum"]
    assert server.cmd("variants", "shape") == ["circle", "- f64", "none", "rect", "- f64", "- f64"]
    for name, value in (("a", 2.0), ("b", 3.0)):
        put(server, name, np.float64(value), "f64")
    put(server, "i", np.int32(3), "i32")
    server.cmd("construct", "s", "shape", "rect", "a", "b")
    server.cmd("construct", "c", "shape", "#circle", "a")
    server.cmd("construct", "n", "shape", "none")
    for name, variant in (("s", "rect"), ("c", "circle"), ("n", "none")):
        assert server.cmd("variant", name) == [variant]
        server.cmd_call("grow", f"{name}2", name)
        assert server.cmd("variant", f"{name}2") == [variant]
    server.cmd("destruct", "s2", "x", "y")
    server.cmd("destruct", "c2", "z")
    server.cmd("destruct", "n2")
    assert get(server, "x", "y", "z") == [4.0, 6.0, 4.0]
    assert server.cmd_inputs("first") == ["#a i32 | #b"] and server.cmd_output("first") == ["#a i32 | #c"]
    fails(server, "has no constructor square", "construct", "e", "shape", "square")
    fails(server, "Constructor rect has 2 values, but 1 are given", "construct", "e", "shape", "rect", "a")
    fails(server, "Variable i has type i32, expected f64", "construct", "e", "shape", "circle", "i")
    fails(server, "already exists: e", "destruct", "s2", "e", "e")
    fails(server, "but 1 names are given", "destruct", "s2", "e")
    fails(server, "Not a sum type: point", "variants", "point")
    fails(server, "is not of a sum type", "variant", "a")


def test_a_failing_entry(server):
    put(server, "xs", np.array([1, 2], np.int32), "[]i32")
    put(server, "i", np.int64(2), "i64")
    with pytest.raises(futhark_server.Failure) as e:
        server.cmd_call("at", "x", "xs", "i")
    assert "p.fut:17:38: Error: Index [2] out of bounds for array of shape [2]" in str(e.value)
    fails(server, "Unknown variable: x", "store", "f", "x")
    fails(server, "Variable xs has type \\[\\]i32, expected i64", "call", "at", "y", "xs", "xs")
    fails(server, "Unknown entry point: ta", "call", "ta", "y", "xs", "i")
    fails(server, "Unknown entry point: ta", "inputs", "ta")


def test_profiling_and_tuning(server):
    put(server, "n", np.int64(3), "i64")
    server.cmd_call("grid", "g", "n")
    assert json.loads("".join(server.cmd_report()))["events"] == [], "profiling is off at first"
    server.cmd_unpause_profiling()
    server.cmd_call("grid", "h", "n")
    server.cmd_pause_profiling()
    server.cmd_call("grid", "i", "n")
    report = json.loads("".join(server.cmd_report()))
    (event,) = report["events"]
    assert event["name"] == "grid" and event["start"] <= event["end"]
    assert all(isinstance(v, int) for v in report["memory"].values())
    server.cmd_clear()
    assert json.loads("".join(server.cmd_report()))["events"] == []
    assert server.cmd_tuning_params("grid") == []
    fails(server, "Unknown tuning parameter: t", "set_tuning_param", "t", "3")
    fails(server, "Unknown tuning parameter: t", "tuning_param_class", "t")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["frobnicate"], "Unknown command: frobnicate"),
        (["inputs"], "Invalid argument count"),
        (["rename", "a"], "Invalid argument count"),
        (["kind", '"i32'], "Unmatched quote"),
        (["restore", "f", "x"], "Invalid argument count"),
        (["kind", "x" * 100_000], "Unknown type"),
    ],
)
def test_wrong_commands(server, line, text):
    fails(server, text, *line)
    assert server.cmd("") == [], "an empty line is no command"


def test_many_calls_hold_no_more_memory(server):
    put(server, "n", np.int64(200), "i64")
    sizes = []
    for _ in range(30):
        server.cmd_call("grid", "g", "n")
        server.cmd_free("g")
        resident, of_files = Path(f"/proc/{server.proc.pid}/statm").read_text().split()[1:3]
        sizes.append(int(resident) - int(of_files))
    assert min(sizes[20:]) <= max(sizes[:10]) + 100, "pages"


def test_wrong_use_of_the_executable(program):
    import subprocess

    for args, code, text in ((["--nonsense"], 2, "--help"), (["x"], 2, "commands are read from stdin")):
        done = subprocess.run([program, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code and text in done.stderr
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "server protocol" in done.stdout


def test_the_example_of_the_documentation(program, tmp_path, monkeypatch, capsys):
    import re

    text = (ROOT / "docs" / "executables.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found
    monkeypatch.chdir(tmp_path)
    Path("prog").symlink_to(program)
    exec(found.group(1), {})
    assert capsys.readouterr().out == "3.0\n"
