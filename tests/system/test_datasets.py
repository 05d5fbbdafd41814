"""Readers of ADBench files: what they return, and what they say of files that are wrong."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import futad.datasets
import numpy as np
import pytest
from futad.datasets import adbench, make_gmm

from futad.errors import FileError
from tests.support.needs import needs_adbench
from tests.support.paths import ADBENCH

ROOT = Path(adbench.__file__).resolve().parents[1]
SHIPPED = ROOT / "datasets" / "gmm_n200_d3_K5.txt"

GMM = "2 2 3\n0.5\n-1\n1 2\n3 4\n.1 .2 .3\n.4 .5 .6\n1 1\n2 2\n3 3\n2 -1\n"
BA = "2 3 5\n1 2 3 4 5 6 7 8 9 10 11\n1 2 3\n0.5\n7 8\n"
HAND = "2 3\n0 1 2 3\n2 4 5 6\n0.1\n0.2\n0.3\n"
HAND_US = "2 3\n0 1 2 3\n1 4 5 6\n0.5 0.25\n0.75 0.125\n0.1\n0.2\n0.3\n"
LSTM = "1 2 2\n\n1 2 3 4 5 6 7 8\n9 8 7 6 5 4 3 2\n\n1 2\n3 4\n5 6\n\n7 8\n9 10\n\n0 1\n1 0\n"
EYE = ":".join(str(float(v)) for v in np.eye(4).reshape(-1))
SHIFT = "1.0:0.0:0.0:5.0:0.0:1.0:0.0:6.0:0.0:0.0:1.0:7.0:0.0:0.0:0.0:1.0"
BONES = f"wrist:-1:{EYE}:{EYE}\nthumb:0:{SHIFT}:{EYE}\n"
VERTICES = "1:2:3:0:0:1:0:0:1:1:1.0\n4:5:6:0:0:1:0:0:2:0:0.25:1:0.75\n7:8:9:0:0:1:0:0:1:0:1.0\n"
TRIANGLES = "0:1:2\n2:1:0\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_gmm(tmp_path: Path) -> None:
    g = adbench.read_gmm(write(tmp_path, "g.txt", GMM))
    np.testing.assert_array_equal(g.alphas, [0.5, -1])
    np.testing.assert_array_equal(g.means, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(g.icf, [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    np.testing.assert_array_equal(g.x, [[1, 1], [2, 2], [3, 3]])
    assert (g.gamma, g.m) == (2.0, -1) and type(g.m) is int
    assert all(a.dtype == np.float64 and a.flags.c_contiguous for a in (g.alphas, g.means, g.icf, g.x))


def test_gmm_one_point_for_all(tmp_path: Path) -> None:
    text = GMM.replace("2 2\n3 3\n", "").replace("2 2 3\n", "2 2 3000\n")
    g = adbench.read_gmm(write(tmp_path, "g.txt", text), replicate_point=True)
    assert g.x.shape == (3000, 2) and (g.x == 1).all()


def test_ba(tmp_path: Path) -> None:
    b = adbench.read_ba(write(tmp_path, "b.txt", BA))
    assert (
        b.cams.shape == (2, 11)
        and b.points.shape == (3, 3)
        and b.weights.shape == (5,)
        and b.features.shape == (5, 2)
    )
    np.testing.assert_array_equal(b.cams[1], np.arange(1, 12))
    np.testing.assert_array_equal(b.observations, [[0, 0], [1, 1], [0, 2], [1, 0], [0, 1]])
    assert b.observations.dtype == np.int64


@pytest.mark.parametrize("text", [HAND, HAND_US])
def test_hand(tmp_path: Path, text: str) -> None:
    for name, content in (("bones", BONES), ("vertices", VERTICES), ("triangles", TRIANGLES)):
        write(tmp_path / "model", f"{name}.txt", content)
    h = adbench.read_hand(write(tmp_path, "h.txt", text))
    np.testing.assert_array_equal(h.theta, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(h.points, [[1, 2, 3], [4, 5, 6]])
    if text is HAND:
        assert h.us is None
    else:
        np.testing.assert_array_equal(h.us, [[0.5, 0.25], [0.75, 0.125]])
    assert h.model is not None
    assert h.model.bone_names == ("wrist", "thumb")
    np.testing.assert_array_equal(h.model.parents, [-1, 0])
    np.testing.assert_array_equal(h.model.base_relatives[1][:3, 3], [5, 6, 7])
    np.testing.assert_array_equal(h.model.base_positions[:, :3], np.arange(1, 10).reshape(3, 3))
    np.testing.assert_array_equal(h.model.weights, [[0, 0.25, 1], [1, 0.75, 0]])
    np.testing.assert_array_equal(h.model.triangles, [[0, 1, 2], [2, 1, 0]])


def test_lstm(tmp_path: Path) -> None:
    s = adbench.read_lstm(write(tmp_path, "l.txt", LSTM))
    assert s.main.shape == (2, 8) and s.extra.shape == (3, 2) and s.state.shape == (2, 2)
    np.testing.assert_array_equal(s.sequence, [[0, 1], [1, 0]])


# reader, text, the line that is to be named, a pattern of what is to be said
WRONG: list[tuple[str, str, int, str]] = [
    ("read_gmm", "", 1, "the file ends here; expected the first line: the dimension d"),
    ("read_gmm", "2 2\n", 1, "has 2 numbers here; expected 3"),
    ("read_gmm", "2 -2 3\n", 1, "the number of clusters k is -2; it must be a positive integer"),
    ("read_gmm", "2 2.5 3\n", 1, "the number of clusters k is 2.5"),
    ("read_gmm", "2 nan 3\n", 1, "the number of clusters k is nan"),
    (
        "read_gmm",
        GMM.replace("2 2 3\n", "2 2 1000000000\n"),
        11,
        r"point 4 of 1000000000|point 5 of 1000000000",
    ),
    ("read_gmm", "x" + GMM, 1, "'x2' is not a number"),
    ("read_gmm", GMM.replace("3 4", "3 4 5"), 5, "mean 2 of 2 has 3 numbers here; expected 2"),
    (
        "read_gmm",
        GMM.replace(".4 .5 .6", ".4 .5"),
        7,
        "inverse covariance factor 2 of 2 has 2 numbers here; expected 3",
    ),
    ("read_gmm", GMM.replace("3 3\n", ""), 10, "Wishart|the file ends here"),
    (
        "read_gmm",
        GMM.replace("2 -1\n", ""),
        10,
        r"the file ends here; expected Wishart prior .* \(2 numbers\)",
    ),
    ("read_gmm", GMM.replace("2 -1", "0 -1"), 11, "gamma is 0; it must be positive"),
    ("read_gmm", GMM.replace("2 -1", "2 0.5"), 11, "m is 0.5; it must be an integer"),
    ("read_gmm", GMM + "1\n", 12, "the file goes on after its last number"),
    ("read_gmm", GMM.replace("2 2\n3 3", "2 inf\n3 3"), 9, "point 2 of 3 holds a number that is not finite"),
    ("read_gmm", GMM[: GMM.index("3 3")], 9, "the file ends here; expected point 3 of 3"),
    ("read_ba", BA.replace("0.5\n", ""), 4, "weight has 2 numbers here; expected 1"),
    ("read_ba", BA.replace(" 11\n", "\n"), 2, "camera has 10 numbers here; expected 11"),
    ("read_hand", HAND.replace("2 4 5 6\n", ""), 3, "point .* 2 of 2 has 1 number here; expected 4"),
    ("read_hand", HAND.replace("2 4 5 6", "2.5 4 5 6"), 3, "correspondence 2.5 is not an integer"),
    (
        "read_hand",
        HAND.replace("2 4 5 6", "3 4 5 6"),
        3,
        "correspondence 3 is not among the model's 3 vertices",
    ),
    ("read_hand", HAND.replace("0.3\n", ""), 5, "the file ends here; expected value of theta 3 of 3"),
    (
        "read_hand",
        HAND_US.replace("0.75 0.125\n", ""),
        5,
        "pair of barycentric parameters 2 of 2 has 1 number",
    ),
    (
        "read_hand",
        HAND_US.replace("1 4 5 6", "2 4 5 6"),
        3,
        "correspondence 2 is not among the model's 2 triangles",
    ),
    ("read_lstm", LSTM.replace("3 4\n5 6\n", "3 4\n"), 13, "the file ends here; expected character 2 of 2"),
    ("read_lstm", LSTM[:-4], 13, "the file ends here; expected character 2 of 2"),
    ("read_lstm", LSTM.replace("5 6 7 8", "5 6 7 oops"), 3, "'oops' is not a number"),
]


@pytest.mark.parametrize("reader, text, line, said", WRONG, ids=range(len(WRONG)))
def test_wrong_files_are_refused_at_their_place(
    tmp_path: Path, reader: str, text: str, line: int, said: str
) -> None:
    for name, content in (("bones", BONES), ("vertices", VERTICES), ("triangles", TRIANGLES)):
        write(tmp_path / "model", f"{name}.txt", content)
    path = write(tmp_path, "data.txt", text)
    with pytest.raises(FileError) as e:
        getattr(adbench, reader)(path)
    assert e.value.span is not None
    assert (e.value.span.file, e.value.span.line) == (str(path), line), str(e.value)
    assert re.search(said, e.value.message), e.value.message


MODEL_WRONG = [
    ("bones", BONES.replace("thumb:0:", "thumb:1:"), 2, "thumb comes before its parent 1"),
    ("bones", BONES.replace("thumb:0:", "thumb:"), 2, "expected 34"),
    ("vertices", VERTICES.replace(":2:0:0.25", ":2:9:0.25"), 2, "not among the 2"),
    ("vertices", VERTICES.replace(":2:0:0.25", ":3:0:0.25"), 2, "expected 15"),
    ("triangles", TRIANGLES.replace("2:1:0", "2:1:7"), 2, "not among the 3 vertices"),
]


@pytest.mark.parametrize("name, text, line, said", MODEL_WRONG)
def test_wrong_hand_models(tmp_path: Path, name: str, text: str, line: int, said: str) -> None:
    texts = {"bones": BONES, "vertices": VERTICES, "triangles": TRIANGLES, name: text}
    for n, content in texts.items():
        write(tmp_path, f"{n}.txt", content)
    with pytest.raises(FileError, match=re.escape(said)) as e:
        adbench.read_hand_model(tmp_path)
    assert e.value.span is not None and e.value.span.line == line
    assert e.value.span.file.endswith(f"{name}.txt")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read .*absent.txt: No such file"):
        adbench.read_gmm(tmp_path / "absent.txt")
    with pytest.raises(FileError, match="cannot read"):
        adbench.read_gmm(tmp_path)
    (tmp_path / "binary.txt").write_bytes(b"2 2 \xff")
    with pytest.raises(FileError, match="byte 4 is not UTF-8"):
        adbench.read_gmm(tmp_path / "binary.txt")


def test_every_truncation_of_a_file_is_refused(tmp_path: Path) -> None:
    for read, text in ((adbench.read_gmm, GMM), (adbench.read_ba, BA), (adbench.read_lstm, LSTM)):
        whole = text.rstrip("\n")
        for cut in range(len(whole)):
            with pytest.raises(FileError):
                read(write(tmp_path, "cut.txt", whole[:cut]))


def test_shipped_file_is_what_its_generator_writes() -> None:
    out = io.StringIO()
    make_gmm.write_gmm(out, 200, 3, 5, 1)
    assert SHIPPED.read_text() == out.getvalue()
    g = futad.datasets.read_gmm(SHIPPED)
    assert g.x.shape == (200, 3) and g.alphas.shape == (5,) and g.icf.shape == (5, 6)


# file, reader, the shape of some fields
REAL_FILES: list[tuple[str, Callable[[Path], Any], dict[str, Any]]] = [
    ("gmm/1k/gmm_d64_K25.txt", adbench.read_gmm, {"alphas": (25,), "icf": (25, 2080), "x": (1000, 64)}),
    ("gmm/10k/gmm_d2_K10.txt", adbench.read_gmm, {"means": (10, 2), "icf": (10, 3), "x": (10000, 2)}),
    ("ba/ba1_n49_m7776_p31843.txt", adbench.read_ba, {"cams": (49, 11), "observations": (31843, 2)}),
    ("hand/simple_small/hand1_t26_c100.txt", adbench.read_hand, {"points": (100, 3), "us": None}),
    ("hand/complicated_big/hand1_t26_c100.txt", adbench.read_hand, {"us": (100, 2), "theta": (26,)}),
    ("lstm/lstm_l2_c1024.txt", adbench.read_lstm, {"main": (4, 56), "sequence": (1024, 14)}),
]


@pytest.mark.slow
@needs_adbench
@pytest.mark.parametrize("name, read, shapes", REAL_FILES, ids=[f[0] for f in REAL_FILES])
def test_real_files(name: str, read: Callable[[Path], Any], shapes: dict[str, Any]) -> None:
    data = read(ADBENCH / name)
    for field, shape in shapes.items():
        value = getattr(data, field)
        assert (value if value is None else value.shape) == shape


@pytest.mark.slow
@needs_adbench
@pytest.mark.parametrize("variant", ["simple_small", "complicated_small", "complicated_big"])
def test_real_hand_model(variant: str) -> None:
    m = adbench.read_hand_model(ADBENCH / "hand" / variant / "model")
    np.testing.assert_allclose(m.weights.sum(axis=0), 1, atol=1e-6)
    # Each bone's absolute transform, from the relative ones, is inverse to the one given.
    absolute: list[np.ndarray] = []
    for parent, relative in zip(m.parents, m.base_relatives, strict=True):
        absolute.append(relative if parent < 0 else absolute[parent] @ relative)
    np.testing.assert_allclose(
        np.array(absolute) @ m.inverse_base_absolutes, np.tile(np.eye(4), (22, 1, 1)), atol=1e-5
    )
