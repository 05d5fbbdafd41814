"""The nest of `programs/adaptive.fut` by equinox's checkpointed loop, once as two loops, once made one by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from memory_figures import one_call, relative
from memory_inputs import rotated


def gradient_by_equinox(form: str, length: int, states: int) -> dict[str, Any]:
    """The figures of the gradient, in this process; `nested`: each loop has so many states."""
    import equinox.internal as eqxi
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def log2_floor(k):
        return jnp.floor(jnp.log(k.astype(float)) / np.log(2.0)).astype(int)

    def repeats(n, i):
        scattered = 1 + 1013 * 27 * (i + 1) % n
        return jnp.left_shift(1, log2_floor(n) - log2_floor(scattered))

    def rotate(first, angle, x):
        c, s = jnp.cos(angle), jnp.sin(angle)
        end = first + (x.size - first) // 2 * 2
        a, b = x[first:end:2], x[first + 1 : end : 2]
        turned = jnp.stack([c * a - s * b, s * a + c * b], axis=1).ravel()
        return jnp.concatenate([x[:first], turned, x[end:]])

    def step(x):
        norm = jnp.sqrt(jnp.sum(x * x))
        return rotate(1, 1.4 * norm, rotate(0, 1.2 * norm, x))

    def loop(go_on, body, init):
        return eqxi.while_loop(go_on, body, init, kind="checkpointed", checkpoints=states)

    def flat(n, x):
        def body(state):
            i, j, x = state
            done = j + 1 == repeats(n, i)
            return jnp.where(done, i + 1, i), jnp.where(done, 0, j + 1), step(x)

        return loop(lambda s: s[0] < n, body, (jnp.asarray(0), jnp.asarray(0), x))[2]

    def nested(n, x):
        def body(state):
            i, x = state
            inner = loop(lambda s: s[0] < repeats(n, i), lambda s: (s[0] + 1, step(s[1])), (jnp.asarray(0), x))
            return i + 1, inner[1]

        return loop(lambda s: s[0] < n, body, (jnp.asarray(0), x))[1]

    run = {"flat": flat, "nested": nested}[form]
    gradient = jax.jit(jax.grad(lambda x, n: jnp.sum(run(n, x) ** 2) / 2))
    *_, x = rotated(length, 1000)
    out = one_call(lambda n: (gradient(x, jnp.asarray(n)).block_until_ready(),), 7, length)
    out["error"] = relative(out.pop("results"), [x])
    return out
