"""Random functions that can be inverted, as text: of (x, y, xs), two numbers and an array of four or more of them."""

from __future__ import annotations

from random import Random

STATE = "(x, y, xs)"


def function(rng: Random, t: str, layers: int, depth: int = 2) -> str:
    """A function of a number `c` and the state, of numbers of type `t`; floats grow by less than 20 a layer."""
    return f"def f [n] (c: {t}) (x: {t}, y: {t}, xs: [n]{t}) : ({t}, {t}, [n]{t}) =\n  {_body(rng, t, layers, depth)}\n"


def _body(rng: Random, t: str, layers: int, depth: int) -> str:
    return " ".join(_layer(rng, t, depth) for _ in range(layers)) + f" in {STATE}"


def _known(rng: Random, t: str, of: str) -> str:
    """A number made of `c` and of `of`, between -3 and 3 if it is a float."""
    if t.startswith("f"):
        bounded = [f"({of} / (1 + {of} * {of}))", "c / (1 + c * c)"]
        return rng.choice([f"{t}.sin ({of} + c)", f"{t}.cos ({of} * c)", *bounded])
    return rng.choice([f"({of} * {of} + c)", f"({of} >> 2)", f"({of} ^ c)", f"(c * {of} + 3)", f"{t}.max {of} c"])


def _scalar(rng: Random, t: str, x: str, of: str, branches: bool = True) -> str:
    """A number that gives `x` back, beside `of`."""
    k = _known(rng, t, of)
    forms = [f"{x} + {k}", f"{x} - {k}", f"{k} - {x}", f"-({x} - {k})"]
    if t.startswith("f"):
        forms += [f"{x} * (1.5 + {t}.sin {of})", f"{x} / (1.25 + c * c) - {k}"]
    else:
        odd, shift, bits = 2 * rng.randrange(1, 40) + 1, rng.randrange(1, 8), int(t[1:])
        forms += [f"{x} ^ {k}", f"({x} + {k}) * {odd}", f"!{x} - {k}", f"{x} ^ ({x} << {shift})"]
        if t[0] == "u":
            forms += [f"{x} ^ ({x} >> {shift})", f"({x} << {shift}) | ({x} >> {bits - shift})"]
    form = rng.choice(forms)
    if branches and rng.random() < 0.2:
        form = f"(if {of} < c then {form} else {rng.choice(forms)})"
    return form


def _layer(rng: Random, t: str, depth: int) -> str:
    kinds = ["x", "y", "both", "elements", "order", "place", "neighbour", "swap", "rows"]
    match rng.choice(kinds + ["loop", "branch"] * (depth > 0)):
        case "x":
            return f"let x = {_scalar(rng, t, 'x', 'y')}"
        case "y":
            return f"let y = {_scalar(rng, t, 'y', 'x')}"
        case "both":
            if t.startswith("f"):
                return "let (x, y) = (0.6 * x - 0.8 * y + c, 0.8 * x + 0.6 * y)"
            return "let (x, y) = (y, x)"
        case "elements":
            other = rng.choice(["x", "y", "(x + y)"])
            return f"let xs = map (\\z -> {_scalar(rng, t, 'z', other)}) xs"
        case "order":
            halves = f"xs[2:] ++ xs[:2] :> [n]{t}"
            return f"let xs = {rng.choice(['reverse xs', 'rotate 1 xs', 'rotate (-3) xs', halves])}"
        case "place":
            k = rng.randrange(4)
            return f"let xs = copy xs with [{k}] = {_scalar(rng, t, f'xs[{k}]', 'x', False)}"
        case "neighbour":
            k, m = rng.sample(range(4), 2)
            return f"let xs = copy xs with [{k}] = {_scalar(rng, t, f'xs[{k}]', f'xs[{m}]', False)}"
        case "swap":
            k, m = rng.sample(range(4), 2)
            return f"let xs = copy xs let z = xs[{k}] let xs[{k}] = xs[{m}] let xs[{m}] = z"
        case "rows":
            return f"let (zs, ws) = (xs[:2], xs[2:]) let zs = map (\\z -> {_scalar(rng, t, 'z', 'ws[1]')}) zs " \
                   f"let xs = zs ++ ws :> [n]{t}"
        case "loop":
            count = rng.choice(["3", "1", "0", "n"])
            return f"let {STATE} = loop {STATE} = {STATE} for _i < {count} do ({_body(rng, t, 2, depth - 1)})"
        case _:
            sides = [_body(rng, t, 2, depth - 1) for _ in range(2)]
            return f"let {STATE} = if c > 2 then ({sides[0]}) else ({sides[1]})"
