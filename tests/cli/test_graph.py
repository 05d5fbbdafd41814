"""futad dev --graph: each statement is drawn once, boxes do not overlap, edges do not cross boxes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from futad.core import ir
from futad.core.calls import reached
from futad.core.parse import parse_program
from futad.draw import described, picture
from futad.draw.calls import call_graph, calls_figure
from futad.draw.cells import Placed
from futad.draw.figure import KINDS, Box, figure
from futad.draw.groups import grouped, uses
from futad.draw.layout import placed
from futad.draw.svg import FILL, LINES
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from tests.support.cli_helpers import Runner, shell
from tests.support.paths import BENCHMARK_PROGRAMS, ROOT

PROGRAMS = ("gmm", "kmeans", "lstm", "ode")
EXAMPLE = "futad dev benchmarks/programs/kmeans.fut -e gradient --graph"

LOOP = """
entry main [n] (xs: [n]f64) (k: i32): f64 =
  vjp (\\(x: [n]f64) -> f64.sum (loop x for _i < k do map (\\a -> a * f64.sin a) x)) xs 1 |> f64.sum
"""
BRANCH = """
entry main [n] (xs: [n]f64) (is: [n]i64): [n]f64 =
  let m = f64.maximum xs
  let ys = if m > 1 then map (/ m) xs else xs
  in reduce_by_index (copy ys) (\\a b -> a * b + a + b) 0 is ys
"""


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


def boxes(box: Box) -> Iterator[Box]:
    yield box
    for inner in box.inside:
        yield from boxes(inner)


def functions(text_or_file: str | Path, after: str) -> list[ir.Fun]:
    read = load_program(str(text_or_file)) if isinstance(text_or_file, Path) else compile_text(text_or_file)
    program = read if after == "none" else compile_program(read, stop_after=after)
    return list(program.funs.values())


def well_placed(p: Placed) -> None:
    """Nothing lies over or outside anything else; way points of edges are beside boxes."""
    cells = [c for c in p.cells if not c.passing and c.width]
    for k, a in enumerate(cells):
        assert 0 <= a.x and a.x + a.width <= p.width + 1e-6 and 0 <= a.y and a.y + a.height <= p.height + 1e-6
        for b in cells[:k]:
            beside = a.x + a.width <= b.x + 1e-6 or b.x + b.width <= a.x + 1e-6
            assert beside or a.y + a.height <= b.y + 1e-6 or b.y + b.height <= a.y + 1e-6
    for way in [c for c in p.cells if c.passing]:
        for b in cells:
            same = b.y < way.y + way.height and way.y < b.y + b.height
            assert not same or not b.x - 1 < way.x < b.x + b.width + 1
    for e in p.links:
        assert e.target.layer == e.source.layer + 1 and e.source.bottom <= e.target.y
        for c, at in ((e.source, e.start), (e.target, e.end)):
            assert -1e-6 <= at <= c.width + 1e-6
    for c in p.cells:
        if c.placed is not None:
            well_placed(c.placed)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["none", "ad", "hoist"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_pictures_of_programs(name, after):
    for fun in functions(BENCHMARK_PROGRAMS / f"{name}.fut", after):
        drawn = figure(fun)
        well_placed(placed(drawn))
        counts = Counter(s for b in boxes(drawn) for s in b.stms)
        assert counts == Counter(statements(fun.body)) and set(counts.values()) <= {1}
        svg = ElementTree.fromstring(picture(fun, "a < b & c"))
        assert svg[0].text == "a < b & c"
        bound = [x for g in svg.iter() for x in g.get("data-binds", "").split()]
        assert len(bound) == len(set(bound)) == sum(len(s.pat) for s in statements(fun.body))


@pytest.mark.slow
def test_text_is_inside_its_box():
    (fun,) = functions(BENCHMARK_PROGRAMS / "gmm.fut", "hoist")[-1:]
    space = "{http://www.w3.org/2000/svg}"
    for g in ElementTree.fromstring(picture(fun, "")).iter(f"{space}g"):
        box = next(x for x in g if x.get("class") == "box")
        left, right = float(box.get("x")), float(box.get("x")) + float(box.get("width"))
        top, bottom = float(box.get("y")), float(box.get("y")) + float(box.get("height"))
        texts = [x for x in g if x.tag == f"{space}text"]
        for t in texts:
            x, y, width = (float(t.get(k)) for k in ("x", "y", "textLength"))
            assert left <= x and x + width <= right + 0.1 and top + 8 <= y <= bottom


def test_kinds_and_sweeps():
    (fun,) = functions(LOOP, "hoist")
    found = {(b.kind, b.sweep) for b in boxes(figure(fun))}
    assert {("loop", "forward"), ("loop", "return"), ("nest", "forward"), ("nest", "return")} <= found
    text = picture(fun, "")
    assert "return sweep" in text and "↻" in text
    (plain,) = functions(BRANCH, "hoist")
    found = {(b.kind, b.sweep) for b in boxes(figure(plain))}
    assert {("branch", ""), ("scatter", ""), ("fold", "")} <= found and "return sweep" not in picture(plain, "")
    titles = [b.title or b.lines[0] for b in boxes(figure(plain))]
    assert "then" in titles and "else" in titles and "lambda" not in titles
    assert any(t.startswith("fold") or "fold max" in t for t in titles)


def test_sizes_names_and_places():
    (fun,) = functions(BENCHMARK_PROGRAMS / "kmeans.fut", "hoist")[1:2]
    text = picture(fun, "")
    for label in ("points [n][d]", "centroids [k][d]", "kmeans.fut:"):
        assert f"{label}" in text
    assert FILL.keys() == LINES.keys() == {*KINDS, "function"}


def test_scalars_share_a_box_unless_others_are_between():
    program = parse_program("""
fun main [n_1: i64] (xs_2: [n_1]f64, a_3: f64) -> (r_20: f64) = {
  let b_4: f64 = mul(a_3, a_3)
  let c_5: f64 = add(b_4, a_3)
  let ys_6: [n_1]f64 = map(n_1, [xs_2], \\(x_7: f64) -> { let y_8: f64 = mul(x_7, c_5) in (y_8) })
  let s_9: f64 =
    reduce(n_1, [ys_6], \\(x_10: f64, y_11: f64) -> { let z_12: f64 = add(x_10, y_11) in (z_12) }, [0.0f64], True)
  let d_13: f64 = mul(s_9, c_5)
  let e_14: f64 = exp(d_13)
  in (e_14)
}
""")
    (fun,) = program.funs.values()
    groups = [[s.pat[0].name for s in g] for g in grouped(fun.body.stms)]
    assert groups == [["b", "c"], ["ys"], ["s"], ["d", "e"]]
    assert [v.name for v in uses(fun.body.stms[2].exp)] == ["n", "xs", "c"]
    lines = [b.lines for b in boxes(figure(fun)) if b.kind == "scalar"]
    assert ["c = (a * a) + a"] in lines and ["e = exp((s * c))"] in lines


def test_the_same_function_is_the_same_picture():
    first, second = (functions(LOOP, "hoist")[0] for _ in range(2))
    assert first is not second and picture(first, "") == picture(second, "")
    assert described(first) == described(second)


def test_json(futad):
    futad.file("loop.fut", LOOP)
    assert futad("dev", "loop.fut", "--graph", "out.json").code == 0
    drawn = json.loads((futad.folder / "out.json").read_text())
    assert drawn["kind"] == "function" and drawn["in"] == ["xs [n]", "k"]
    kinds = {b["kind"] for b in drawn["inside"]}
    assert "loop" in kinds and all({"text", "binds", "sweep", "note"} <= b.keys() for b in drawn["inside"])


CALLS = """
fun square (x_1: f64) -> (r_2: f64) = { let y_3: f64 = mul(x_1, x_1) in (y_3) }
fun twice (x_4: f64) -> (r_5: f64) = {
  let y_6: f64 = call("square", [x_4])
  let z_7: f64 = call("square", [y_6])
  in (z_7)
}
fun alone (x_8: f64) -> (r_9: f64) = { let y_10: f64 = call("twice", [x_8]) in (y_10) }
"""


def test_calls():
    program = parse_program(CALLS)
    times = {(a, b): d["times"] for a, b, d in call_graph(program).edges(data=True)}
    assert times == {("twice", "square"): 2, ("alone", "twice"): 1}
    program.funs["twice"].entry = ir.Entry("twice", (), ir.EntryType("scalar", "f64"))
    drawn = calls_figure(program)
    well_placed(placed(drawn))
    assert [(b.lines[0], b.kind) for b in drawn.inside] == [("square", "data"), ("twice", "nest"), ("alone", "scalar")]
    assert reached(program, ["twice"]) == ["square", "twice"] and reached(program, ["alone"]) == list(program.funs)


@pytest.mark.slow
def test_the_command_for_calls(futad):
    file = str(BENCHMARK_PROGRAMS / "hand.fut")
    assert futad("dev", file, "--after", "none", "--graph", "out.svg", "--calls").code == 0
    text = (futad.folder / "out.svg").read_text()
    assert ElementTree.fromstring(text)[0].text == "calls of hand.fut, after none"
    assert ">entry<" in text and ">function<" in text and "complicated_jacobian" in text
    assert futad("dev", file, "--after", "none", "--graph", "out.json", "--calls").code == 0
    names = {b["text"][0] for b in json.loads((futad.folder / "out.json").read_text())["inside"]}
    assert names == {f.name for f in functions(BENCHMARK_PROGRAMS / "hand.fut", "none")}


def test_the_command(futad):
    futad.file("branch.fut", BRANCH)
    for given, name in ((["out.svg"], "out.svg"), ([], "branch.svg")):  # without a name: that of the program
        done = futad("dev", "branch.fut", "--after", "simplify", "--graph", *given)
        assert (done.code, done.out, done.err) == (0, f"{name}\n", "")
        svg = ElementTree.fromstring((futad.folder / name).read_text())
        assert svg[0].text == "main of branch.fut, after simplify"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--graph", "out.png"], 2, "--graph out.png: the name is to end in .svg or .json"),
        (["--graph", "out.svg", "-e", "mian"], 2, "no entry 'mian'; did you mean main?"),
        (["--graph", "out.svg", "--after", "nix"], 2, "no pass is called 'nix'"),
        (["--graph", "out.svg", "--after", "flatten"], 2, "--graph draws the core IR"),
        (["--graph", "out.svg", "--cost"], 2, "--graph draws the core IR"),
        (["--calls"], 2, "--calls is for --graph"),
        (["--graph", "none/out.svg"], 1, "cannot write none/out.svg"),
        (["--graph", "folder.svg"], 1, "cannot write folder.svg"),
    ],
)
def test_wrong_arguments(futad, args, code, message):
    futad.file("branch.fut", BRANCH)
    (futad.folder / "folder.svg").mkdir()
    done = futad("dev", "branch.fut", *args)
    assert done.code == code and message in done.err and done.out == ""
    assert not (futad.folder / "out.svg").exists()


@pytest.mark.slow
def test_the_picture_in_the_documentation(tmp_path):
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert f"{EXAMPLE} docs/graph.svg" in page and "](graph.svg)" in page
    done = shell(f"{EXAMPLE} {tmp_path}/graph.svg", ROOT)
    assert done.returncode == 0, done.stderr
    same = (tmp_path / "graph.svg").read_text() == (ROOT / "docs" / "graph.svg").read_text()
    assert same, f"draw it anew: {EXAMPLE} docs/graph.svg"


@pytest.mark.slow
def test_networkx_is_imported_for_pictures_alone(tmp_path):
    (tmp_path / "p.fut").write_text(BRANCH)
    code = (
        "import sys, futad, futad.cli; futad.load('p.fut', backend='interp'); "
        "futad.cli.main(['c', '--library', 'p.fut', '-o', 'p']); print('networkx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
