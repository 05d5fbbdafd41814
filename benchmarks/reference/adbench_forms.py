"""ADBench's objectives and others in NumPy, independent of futad.

All are written to take complex arguments, so that `complex_step` gives derivatives exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def complex_step(f: Callable[[Array], Any], x: Array) -> Array:
    """The Jacobian of f at x, flattened: one row a result, one column an element of x."""
    columns = []
    for i in range(x.size):
        moved = x.astype(complex)
        moved.flat[i] += 1e-30j
        columns.append(np.ravel(f(moved)).imag / 1e-30)
    return np.stack(columns, axis=1)


# --- Bundle adjustment -------------------------------------------------------------------------------


def skew(r: Array) -> Array:
    """The matrix whose product with x is the cross product of r and x."""
    zero = 0 * r[0]
    return np.array([[zero, -r[2], r[1]], [r[2], zero, -r[0]], [-r[1], r[0], zero]])


def axis_angle(r: Array) -> Array:
    """The rotation matrix about r by |r|: I + sin K + (1 - cos) K^2 of the unit axis; I + K if r is 0."""
    angle = np.sqrt((r * r).sum())
    if angle == 0:
        return np.eye(3) + skew(r)
    k = skew(r / angle)
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)


def ba_errors(cameras: Array, points: Array, weights: Array, observations: Array, features: Array) -> Array:
    """Errors of reprojection, two an observation, then of weight: [3 p]."""
    errors = []
    for (camera, point), w, feature in zip(observations, weights, features, strict=True):
        c = cameras[camera]
        x = axis_angle(c[:3]) @ (points[point] - c[3:6])
        plane = x[:2] / x[2]
        square = (plane * plane).sum()
        distorted = plane * (1 + c[9] * square + c[10] * square**2)
        errors.append(w * (c[6] * distorted + c[7:9] - feature))
    return np.concatenate([*errors, 1 - weights * weights])


def ba_jacobian(cameras: Array, points: Array, weights: Array, observations: Array, features: Array) -> Array:
    """The dense Jacobian of `ba_errors` by cameras, points and weights."""
    first, second = cameras.size, cameras.size + points.size

    def f(z: Array) -> Array:
        c, x = z[:first].reshape(cameras.shape), z[first:second].reshape(points.shape)
        return ba_errors(c, x, z[second:], observations, features)

    return complex_step(f, np.concatenate([cameras.ravel(), points.ravel(), weights]))


# --- Hand tracking -----------------------------------------------------------------------------------


def iteration(axis: int, angle: Any) -> Array:
    """The homogeneous rotation about a coordinate axis."""
    m = np.eye(4, dtype=np.result_type(angle, float))
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    m[i, i] = m[j, j] = np.cos(angle)
    m[i, j], m[j, i] = -np.sin(angle), np.sin(angle)
    return m


def hand_vertices(
    parents: Array, relatives: Array, inverses: Array, positions: Array, weights: Array, mirrored: bool, theta: Array
) -> Array:
    """Linear blend skinning with forward kinematics, then the hand's own rotation and translation: [v][3]."""
    pose = np.zeros((len(parents), 2), theta.dtype)
    for finger, angles in enumerate(theta[6:26].reshape(5, 4)):
        bone = 2 + 4 * finger
        pose[bone] = angles[:2]
        pose[bone + 1, 0], pose[bone + 2, 0] = angles[2:]
    absolutes: list[Array] = []
    for parent, relative, (bend, spread) in zip(parents, relatives, pose, strict=True):
        local = relative @ iteration(2, spread) @ iteration(0, bend)
        absolutes.append(local if parent < 0 else absolutes[parent] @ local)
    moves = np.array([a @ i for a, i in zip(absolutes, inverses, strict=True)])
    skinned = np.einsum("vb,bij,vj->vi", weights, moves, positions)[:, :3]
    if mirrored:
        skinned = skinned * [-1, 1, 1]
    angle = np.sqrt((theta[:3] ** 2).sum())
    rotation = np.eye(3) if angle.real < 1e-4 else axis_angle(theta[:3])
    return skinned @ rotation.T + theta[3:6]


def hand_errors(
    model: tuple[Any, ...], triangles: Array, correspondences: Array, points: Array, theta: Array, us: Array | None
) -> Array:
    """Points minus where the skin is: [c][3]; triangles serve the complicated variant, which has us."""
    vertices = hand_vertices(*model, theta)
    if us is None:
        return points - vertices[correspondences]
    corners = vertices[triangles[correspondences]]
    weights = np.stack([us[:, 0], us[:, 1], 1 - us[:, 0] - us[:, 1]], axis=1)
    return points - np.einsum("ck,cki->ci", weights, corners)


# --- LSTM with diagonal weights ----------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def dlstm_loss(main: Array, extra: Array, state: Array, sequence: Array) -> Any:
    """The mean negative log likelihood of each next character."""
    layers, bits = len(main) // 2, sequence.shape[1]
    hidden, cell = [list(rows) for rows in (state[0::2], state[1::2])]
    total = 0.0
    for x, gold in zip(sequence[:-1], sequence[1:], strict=True):
        x = x * extra[0]
        for i in range(layers):
            w, b = main[2 * i].reshape(4, bits), main[2 * i + 1].reshape(4, bits)
            forget, output = sigmoid(x * w[0] + b[0]), sigmoid(x * w[2] + b[2])
            gate, change = sigmoid(hidden[i] * w[1] + b[1]), np.tanh(hidden[i] * w[3] + b[3])
            cell[i] = cell[i] * forget + gate * change
            hidden[i] = x = output * np.tanh(cell[i])
        y = x * extra[1] + extra[2]
        total = total + (gold * (y - np.log(2 + np.exp(y).sum()))).sum()
    return -total / ((len(sequence) - 1) * bits)


# --- An ordinary differential equation ---------------------------------------------------------------


def ode_solution(x: Array, steps: int) -> Array:
    """y' = x * (1, y_0, y_1, ...) from 0 to time 2 by the classical Runge-Kutta method, a linear step y <- A y
    + b written as matrices."""
    n = len(x)
    h = 2 / steps
    # The state (1, y), whose derivative is linear in it.
    m = np.zeros((n + 1, n + 1))
    m[np.arange(1, n + 1), np.arange(n)] = x
    z = h * m
    step = np.eye(n + 1) + z @ (np.eye(n + 1) + z / 2 @ (np.eye(n + 1) + z / 3 @ (np.eye(n + 1) + z / 4)))
    y = np.zeros(n + 1)
    y[0] = 1
    for _ in range(steps):
        y = step @ y
    return y[1:]
