"""A neural network in a differential equation, trained on a spiral: the gradient goes through the solver's loop.

    python examples/neural_ode.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import PALETTE, run

import futad

# y' = W2 tanh (W1 y^3 + b1) + b2 (Chen et al., 2018), four Runge-Kutta steps from one time to the next.
PROGRAM = r"""
type net [h] = {w1: [h][2]f64, b1: [h]f64, w2: [2][h]f64, b2: [2]f64}

def slope [h] (p: net [h]) (y: [2]f64): [2]f64 =
  let hidden = map2 (\row b -> f64.tanh (f64.sum (map2 (\w v -> w * v ** 3) row y) + b)) p.w1 p.b1
  in map2 (\row b -> f64.sum (map2 (*) row hidden) + b) p.w2 p.b2

def step [h] (p: net [h]) (dt: f64) (y: [2]f64): [2]f64 =
  let ahead k c = map2 (\a b -> a + c * dt * b) y k
  let k1 = slope p y
  let k2 = slope p (ahead k1 0.5)
  let k3 = slope p (ahead k2 0.5)
  let k4 = slope p (ahead k3 1)
  in map5 (\a p q r s -> a + dt / 6 * (p + 2 * q + 2 * r + s)) y k1 k2 k3 k4

entry solve [h] (p: net [h]) (start: [2]f64) (n: i64) (dt: f64): [n][2]f64 =
  (loop (y, out) = (start, replicate n [0.0, 0.0]) for i < n do
     (loop z = y for _j < 4 do step p (dt / 4) z, out with [i] = y)).1

entry loss [h][m][n] (p: net [h]) (data: [m][n][2]f64) (dt: f64): f64 =
  let part points = f64.sum (flatten (map2 (map2 (\a b -> (a - b) ** 2)) (solve p points[0] n dt) points))
  in f64.sum (map part data) / f64.i64 (m * n)
"""


def spiral(n: int, dt: float) -> Any:
    """Of y' = A y^3 with A = ((-0.1, 2), (-2, -0.1)), from (2, 0), by small steps."""
    a, y, out = np.array([[-0.1, 2.0], [-2.0, -0.1]]), np.array([2.0, 0.0]), []
    for _ in range(n):
        out.append(y)
        for _ in range(50):
            middle = y + dt / 100 * (a @ y**3)
            y = y + dt / 50 * (a @ middle**3)
    return np.array(out)


def main(small: bool) -> Callable[[Any], Any]:
    random = np.random.default_rng(6)
    hidden, steps, length = (8, 20, 8) if small else (32, 1500, 12)
    dt, truth = 0.05, spiral(120, 0.05)
    starts = np.arange(0, len(truth) - length, 3)
    data = np.stack([truth[k : k + length] for k in starts])  # pieces of the path
    net = {"w1": 0.3 * random.normal(size=(hidden, 2)), "b1": np.zeros(hidden),
           "w2": 0.3 * random.normal(size=(2, hidden)), "b2": np.zeros(2)}  # fmt: skip
    prog = futad.compile(PROGRAM, "neural_ode")
    gradient = futad.value_and_grad(prog.loss)
    first = {k: np.zeros_like(v) for k, v in net.items()}  # Adam (Kingma and Ba, 2015)
    second = {k: np.zeros_like(v) for k, v in net.items()}
    losses = []
    for t in range(1, steps + 1):
        value, slopes = gradient(net, data, dt)
        losses.append(float(value))
        rate = 0.01 * (1 - t / (steps + 1))
        for k in net:
            g = slopes[k]
            first[k] += 0.1 * (g - first[k])
            second[k] += 0.01 * (g * g - second[k])
            net[k] = net[k] - rate * (first[k] / (1 - 0.9**t)) / (np.sqrt(second[k] / (1 - 0.99**t)) + 1e-8)
    print(f"{hidden} hidden units, {steps} steps of Adam: loss {losses[0]:.5f} at first, {losses[-1]:.5f} at last")
    path = prog.solve(net, truth[0], len(truth), dt)

    def draw(plt: Any) -> Any:
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.2), layout="constrained")
        left.plot(*truth.T, "o", markersize=2.5, color=PALETTE[4], label="data")
        left.plot(*path.T, color=PALETTE[0], label="network's equation, solved")
        left.set_aspect("equal")
        left.legend(fontsize=7, loc="center")
        every = range(0, steps, max(1, steps // 150))
        right.semilogy(every, [losses[k] for k in every], color=PALETTE[1])
        right.set_xlabel("step of Adam")
        right.set_title("loss")
        return figure

    return draw


if __name__ == "__main__":
    run("neural_ode", __doc__, main)
