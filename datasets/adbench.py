"""Readers of the data files of ADBench (github.com/microsoft/ADBench): whitespace-separated text to NumPy
arrays.

A file that is missing, truncated, too long, or whose numbers do not fit its first line is refused with a
`futad.errors.FileError` that names the file, the line and what was expected there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from futad.errors import FileError, Span

Array = np.ndarray[Any, np.dtype[Any]]
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Gmm:
    """A Gaussian mixture: f64 throughout.  alphas [k], means [k][d], icf [k][d + d(d-1)/2] (first the d
    logarithms of the diagonal, then the strictly lower triangle column by column), x [n][d], the Wishart
    prior's gamma and m."""

    alphas: Array
    means: Array
    icf: Array
    x: Array
    gamma: float
    m: int


@dataclass(frozen=True, slots=True)
class Ba:
    """Bundle adjustment: f64 cams [n][11] (rotation 3, centre 3, focal length, principal point 2, radial
    distortion 2), points [m][3], weights [p], features [p][2]; i64 observations [p][2] (camera, point)."""

    cams: Array
    points: Array
    weights: Array
    observations: Array
    features: Array


@dataclass(frozen=True, slots=True)
class HandModel:
    """The hand's skeleton and skin: i64 parents [b] (-1 at the root); f64 base_relatives and
    inverse_base_absolutes [b][4][4], base_positions [v][4] (homogeneous), weights [b][v]; i64 triangles
    [t][3]; is_mirrored."""

    bone_names: tuple[str, ...]
    parents: Array
    base_relatives: Array
    inverse_base_absolutes: Array
    base_positions: Array
    weights: Array
    triangles: Array
    is_mirrored: bool = False


@dataclass(frozen=True, slots=True)
class Hand:
    """Hand tracking: f64 theta [n_theta], i64 correspondences [n], f64 points [n][3]; us [n][2] is None in
    the simple variant; model is None if not asked for."""

    theta: Array
    correspondences: Array
    points: Array
    us: Array | None
    model: HandModel | None


@dataclass(frozen=True, slots=True)
class Lstm:
    """ADBench's LSTM with diagonal weights: f64 main [2l][4b], extra [3][b], state [2l][b], sequence
    [c][b]."""

    main: Array
    extra: Array
    state: Array
    sequence: Array


def read_gmm(path: PathLike, *, replicate_point: bool = False) -> Gmm:
    """A mixture file: `d k n`, k alphas, k means, k inverse covariance factors, n points, `gamma m`.

    With `replicate_point` the file holds one point that stands for all n (ADBench's 2.5M files).
    """
    lines = _Lines(path)
    d, k, n = lines.sizes("the dimension d", "the number of clusters k", "the number of points n")
    alphas = lines.block("alpha", k, 1)[:, 0]
    means = lines.block("mean", k, d)
    icf = lines.block("inverse covariance factor", k, d + d * (d - 1) // 2)
    if replicate_point:
        x = np.repeat(lines.block("point", 1, d), n, axis=0)
    else:
        x = lines.block("point", n, d)
    gamma, m = lines.block("Wishart prior (gamma and m)", 1, 2)[0]
    if gamma <= 0:
        lines.fail(f"the Wishart prior's gamma is {gamma:g}; it must be positive")
    if m != int(m):
        lines.fail(f"the Wishart prior's m is {m:g}; it must be an integer")
    lines.end()
    return Gmm(alphas, means, icf, x, float(gamma), int(m))


def read_ba(path: PathLike) -> Ba:
    """A bundle adjustment file: `n m p`, one camera, point, weight and feature to be repeated n, m, p and p
    times; observation i is of point i mod m by camera i mod n."""
    lines = _Lines(path)
    n, m, p = lines.sizes("the number of cameras", "the number of points", "the number of observations")
    cams = np.repeat(lines.block("camera", 1, 11), n, axis=0)
    points = np.repeat(lines.block("point", 1, 3), m, axis=0)
    weights = np.repeat(lines.block("weight", 1, 1)[:, 0], p)
    features = np.repeat(lines.block("feature", 1, 2), p, axis=0)
    lines.end()
    seen = np.arange(p)
    return Ba(cams, points, weights, np.stack([seen % n, seen % m], axis=1), features)


def read_hand(path: PathLike, *, complicated: bool | None = None, model: bool = True) -> Hand:
    """A hand file: `n_points n_theta`, n_points of `index x y z`, in the complicated variant n_points of two
    barycentric parameters, n_theta values.  `complicated` None looks at the file.

    With `model`, the folder `model/` beside it is read too.
    """
    lines = _Lines(path)
    n, n_theta = lines.sizes("the number of points", "the number of parameters theta")
    body = lines.block("point (correspondence and 3 coordinates)", n, 4)
    correspondences = lines.integers(body[:, 0], "correspondence", n)
    if complicated is None:
        complicated = len(lines.peek()) == 2
    us = lines.block("pair of barycentric parameters", n, 2) if complicated else None
    theta = lines.block("value of theta", n_theta, 1)[:, 0]
    lines.end()
    hand_model = read_hand_model(Path(path).parent / "model") if model else None
    if hand_model is not None:
        limit, what = (
            (len(hand_model.triangles), "triangles")
            if complicated
            else (hand_model.base_positions.shape[0], "vertices")
        )
        outside = np.flatnonzero((correspondences < 0) | (correspondences >= limit))
        if len(outside):
            i = int(outside[0])
            lines.fail(
                f"correspondence {correspondences[i]} is not among the model's {limit} {what}", back=-(i + 2)
            )
    return Hand(theta, correspondences, body[:, 1:], us, hand_model)


def read_hand_model(folder: PathLike) -> HandModel:
    """The folder's bones.txt, vertices.txt and triangles.txt (fields separated by colons)."""
    bones = _Lines(Path(folder) / "bones.txt", ":")
    names: list[str] = []
    numbers = []
    while bones.peek():
        names.append(bones.peek()[0])
        numbers.append(bones.row("bone", 34, skip=1))
    table = np.array(numbers)
    parents = bones.integers(table[:, 0], "parent", len(names))
    if np.any(parents >= np.arange(len(names))):
        bad = int(np.flatnonzero(parents >= np.arange(len(names)))[0])
        bones.fail(f"bone {names[bad]} comes before its parent {parents[bad]}", back=-(bad + 1))
    vertices = _Lines(Path(folder) / "vertices.txt", ":")
    positions, pairs = [], []
    while fields := vertices.peek():
        count = int(fields[8]) if len(fields) > 8 and fields[8].isdigit() else 0
        row = vertices.row("vertex", 9 + 2 * count)
        bone = row[9::2]
        if np.any((bone < 0) | (bone >= len(names)) | (bone != np.floor(bone))):
            vertices.fail(f"a vertex hangs on a bone that is not among the {len(names)}")
        pairs.append((bone.astype(np.int64), row[10::2]))
        positions.append([*row[:3], 1.0])
    weights = np.zeros((len(names), len(positions)))
    for i, (bone, weight) in enumerate(pairs):
        weights[bone, i] = weight
    corners = _Lines(Path(folder) / "triangles.txt", ":")
    rows = []
    while corners.peek():
        row = corners.row("triangle", 3)
        if np.any((row < 0) | (row >= len(positions)) | (row != np.floor(row))):
            corners.fail(f"a corner is not among the {len(positions)} vertices")
        rows.append(row)
    return HandModel(
        tuple(names), parents, table[:, 1:17].reshape(-1, 4, 4), table[:, 17:33].reshape(-1, 4, 4),
        np.array(positions), weights, np.array(rows).astype(np.int64).reshape(-1, 3),
    )  # fmt: skip


def read_lstm(path: PathLike) -> Lstm:
    """An LSTM file: `layers chars bits`, then the main parameters, extra parameters, state and sequence."""
    lines = _Lines(path)
    layers, chars, bits = lines.sizes(
        "the number of layers", "the number of characters", "the bits a character"
    )
    main = lines.block("row of main parameters", 2 * layers, 4 * bits)
    extra = lines.block("row of extra parameters", 3, bits)
    state = lines.block("row of the state", 2 * layers, bits)
    sequence = lines.block("character", chars, bits)
    lines.end()
    return Lstm(main, extra, state, sequence)


class _Lines:
    """The lines of a file that are not blank, read in order."""

    def __init__(self, path: PathLike, separator: str | None = None) -> None:
        self.path = os.fspath(path)
        self.separator = separator
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as e:
            raise FileError(f"cannot read {self.path}: {e.strerror}") from None
        except UnicodeDecodeError as e:
            raise FileError(f"{self.path} is not text: byte {e.start} is not UTF-8") from None
        split = text.splitlines()
        self.lines = [(i, line) for i, line in enumerate(split, 1) if line.strip()]
        self.last = len(split)
        self.next = 0

    def fail(self, message: str, *, back: int = 1, col: int = 1) -> None:
        """Raises FileError at the line `back` lines before the next one (negative: counted from the
        first)."""
        at = -back - 1 if back < 0 else self.next - back
        number, text = self.lines[at] if 0 <= at < len(self.lines) else (max(self.last, 1), "")
        raise FileError(
            message, Span(self.path, number, col, number, max(col + 1, len(text) + 1)), source_line=None
        )

    def peek(self) -> list[str]:
        """The fields of the next line; none at the end."""
        return self.lines[self.next][1].split(self.separator) if self.next < len(self.lines) else []

    def row(self, what: str, width: int, *, place: str = "", skip: int = 0) -> Array:
        """The next line's numbers: `width` fields, of which the first `skip` are no numbers."""
        if self.next >= len(self.lines):
            self.fail(f"the file ends here; expected {what}{place} ({_count(width, 'number')})", back=0)
        fields = self.peek()
        self.next += 1
        if len(fields) != width:
            self.fail(f"{what}{place} has {_count(len(fields), 'number')} here; expected {width}")
        try:
            return np.array(fields[skip:], dtype=np.float64)
        except ValueError:
            for f in fields[skip:]:
                if not _is_number(f):
                    text = self.lines[self.next - 1][1]
                    self.fail(f"{f!r} is not a number (in {what}{place})", col=text.index(f) + 1)
            raise

    def block(self, what: str, count: int, width: int) -> Array:
        """`count` lines of `width` numbers: f64 [count][width].  All must be finite."""
        rows = []
        for i in range(count):
            row = self.row(what, width, place=f" {i + 1} of {count}" if count > 1 else "")
            if not np.isfinite(row).all():
                self.fail(f"{what} {i + 1} of {count} holds a number that is not finite")
            rows.append(row)
        return np.stack(rows)

    def sizes(self, *names: str) -> list[int]:
        """The first line: positive integers."""
        values = self.row("the first line: " + ", ".join(names), len(names))
        for name, v in zip(names, values, strict=True):
            if not (v == np.floor(v) and 1 <= v < 2**31):
                self.fail(f"{name} is {v:g}; it must be a positive integer")
        return [int(v) for v in values]

    def integers(self, values: Array, what: str, count: int) -> Array:
        """`values`, one for each of the last `count` lines, as i64."""
        bad = np.flatnonzero(values != np.floor(values))
        if len(bad):
            self.fail(f"{what} {values[bad[0]]:g} is not an integer", back=count - int(bad[0]))
        return values.astype(np.int64)

    def end(self) -> None:
        """Raises FileError if anything follows."""
        if self.next < len(self.lines):
            self.fail("the file goes on after its last number; its first line promises less", back=0)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
