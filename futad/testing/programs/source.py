# ruff: noqa: E501 (programs read better unbroken)
"""Random programs in the source language, for derivatives; reproducible from a seed.

`source(seed, elem)` gives the text of `f [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) : (t, [n]t, [k]t, t)`, `t` being the
type `elem`.  Floats stay bounded, and decisions compare integers, or floats with odd thresholds.  Operators are
associative, and their neutral elements neutral.
"""

from __future__ import annotations

import re

from futad.testing.programs.source_base import FLOATS, HEAD, INTEGERS, Base, Env


class Gen(Base):
    """Statements and whole programs."""

    # -- statements: each gives one or more lets without the last `in`

    def stm(self, e: Env, depth: int) -> str:
        kinds = [self.st_map, self.st_map, self.st_map2d, self.st_reduce, self.st_reduce, self.st_scan, self.st_hist,
                 self.st_hist, self.st_scatter, self.st_loop, self.st_loop, self.st_loop, self.st_while, self.st_if,
                 self.st_layout, self.st_filter, self.st_record, self.st_deriv, self.st_custom, self.st_update,
                 self.st_stencil, self.st_sort, self.st_acc, self.st_growing, self.st_flat]  # fmt: skip
        if depth >= 3:
            kinds = [self.st_map, self.st_reduce, self.st_update, self.st_if, self.st_record, self.st_layout, self.st_scan]
        return self.c(kinds)(e, depth)

    def st_map(self, e: Env, depth: int) -> str:
        kind = self.c("vw")
        size = "n" if kind == "v" else "k"
        if self.p(0.5):
            a, b = self.arr(e, kind), self.arr(e, kind)
            lam = self.lam(e, "ss", depth, lambda q: self.sx(q))
            return self.bind(e, kind, f"map2 ({lam}) {a} {b}")
        lam = self.lam(e, "i", depth, lambda q: self.sx(q, 3))
        return self.bind(e, kind, self.c([f"map ({lam}) (iota {size})", f"tabulate {size} ({lam})"]))

    def st_map2d(self, e: Env, depth: int) -> str:
        match self.r.randrange(4):
            case 0:
                a = self.arr(e, "m")
                return self.bind(e, "m", f"map ({self.lam(e, 'w', depth, lambda q: self.row(q))}) {a}")
            case 1:
                a, b = self.arr(e, "m"), self.arr(e, "v")
                return self.bind(e, "m", f"map2 ({self.lam(e, 'ws', depth, lambda q: self.row(q))}) {a} {b}")
            case 2:
                a = self.arr(e, "m")
                return self.bind(e, "w", f"map ({self.lam(e, 'v', depth, lambda q: self.sx(q))}) (transpose {a})")
            case _:
                a = self.arr(e, "m")
                return self.bind(e, "v", f"map ({self.lam(e, 'w', depth, lambda q: self.sx(q))}) {a}")

    def row(self, e: Env) -> str:
        """A [k] value."""
        w = self.arr(e, "w")
        return self.c([w, f"map (\\z -> z * {self.sx(e, 1)}) {w}", f"(copy {w})", f"scan (+) 0 (map small {w})",
                       f"(let z = copy {w} in if k > 0 then z with [{self.at(e, 'k')}] = {self.sx(e, 1)} else z)"])  # fmt: skip

    def pairop(self, e: Env) -> tuple[str, str]:
        """An associative operator on pairs, and its neutral element."""
        second, unit = self.c([("b * d", "1"), ("b + d", "0"), ("t.max b d", "t.lowest"), ("b + a * c + d", "0")])
        first = "0" if second == "b + a * c + d" else self.c(["0.1 * a * c", "0"])
        return f"(\\(a, b) (c, d) -> (a + c + {first}, {second}))", f"(0, {unit})"

    def st_reduce(self, e: Env, depth: int, op: str = "reduce") -> str:
        kind = self.c("vw")
        a, b = self.arr(e, kind), self.arr(e, kind)
        k = self.r.randrange(12)
        if k <= 2:
            o, z = self.c([("(+)", "0"), ("(*)", "1"), ("t.max", "t.lowest"), ("t.min", "t.highest")])
            if op == "reduce":
                return self.bind(e, "s", f"small ({self.guard(o, f'{op} {o} {z} {a}')})")
            return self.bind(e, kind, f"map small ({op} {o} {z} {a})")
        if k == 3:
            q = self.sx(e, 1)
            o = f"(\\a b -> a + b + ({q}) * a * b)" if self.p(0.5) else "(\\a b -> a * b + a + b)"
            r = f"{op} {o} 0 (map small {a})"
            return self.bind(e, "s", f"small ({r})") if op == "reduce" else self.bind(e, kind, f"map small ({r})")
        if k == 4:
            r = f"{op} lin (1, 0) (zip (map unit {a}) {b})"
        elif k == 5:
            r = f"{op} mm (1, 0, 0, 1) (map2 (\\x y -> (unit x, small y, x * 0.25, {self.sx(e, 1)})) {a} {b})"
            if op == "reduce":
                x, y, z, w = [self.name("r") for _ in range(4)]
                return f"let ({x}, {y}, {z}, {w}) = {r} in " + self.bind(e, "s", f"small ({x} + {y} * {z} - {w})")
            x, y, z, w = [self.name("r") for _ in range(4)]
            return f"let ({x}, {y}, {z}, {w}) = unzip4 ({r}) in " + self.bind(e, kind, f"map4 (\\p q r s -> small (p + q * r - s)) {x} {y} {z} {w}")
        elif k == 6:
            r = f"{op} mm2 [[1, 0], [0, 1]] (map2 (\\x y -> [[unit x, small y], [x * 0.25, {self.sx(e, 1)}]]) {a} {b})"
            if op == "reduce":
                x = self.name("q")
                return f"let {x} = {r} in " + self.bind(e, "s", f"small ({x}[0, 0] + {x}[0, 1] * {x}[1, 0] - {x}[1, 1])")
            return self.bind(e, kind, f"map (\\q -> small (q[0, 0] + q[0, 1] * q[1, 0] - q[1, 1])) ({r})")
        elif k in (7, 8):
            m = self.arr(e, "m")
            o, z = self.c([("map2 (+)", "0"), ("map2 (*)", "1"), ("map2 t.max", "t.lowest"), ("map2 (\\a b -> a + b + 0.1 * a * b)", "0")])
            r = f"{op} ({o}) (replicate k {z}) (map (map small) {m})"
            if op == "reduce":
                return self.bind(e, "w", f"map small ({r})") if z != "t.lowest" else self.bind(e, "w", f"map (\\z -> if z < low then 0 else z) ({r})")
            return self.bind(e, "m", f"map (map small) ({r})") if z != "t.lowest" else self.bind(e, "m", r)
        elif k == 9:
            o, z = self.pairop(e)
            r = f"{op} {o} {z} (zip (map small {a}) (map small {b}))"
        elif k == 10 and op == "reduce":
            # largest value with its position
            r = f"reduce (\\(a, i) (b, j) -> if a >= b then (a, i) else (b, j)) (t.lowest, -1) (zip {a} (iota {'n' if kind == 'v' else 'k'}))"
            x, y = self.name("r"), self.name("i")
            e.i.append(y)
            return f"let ({x}, {y}0) = {r} in let {y} = {y}0 + 1 in " + self.bind(e, "s", f"(if {x} < low then 0 else {x})")
        else:
            r = f"{op} (\\x y -> x + y) 0 (map2 (\\x y -> x * y) {a} {b})"
            return self.bind(e, "s", f"small ({r})") if op == "reduce" else self.bind(e, kind, f"map small ({r})")
        x, y = self.name("r"), self.name("r")
        if op == "reduce":
            return f"let ({x}, {y}) = {r} in " + self.bind(e, "s", f"small ({x} + 0.5 * {self.guard('t.max', y)})")
        return f"let ({x}, {y}) = unzip ({r}) in " + self.bind(e, kind, f"map2 (\\p q -> small (p - 0.5 * (if q < low then 0 else q))) {x} {y}")

    def guard(self, o: str, r: str) -> str:
        return f"(let z = {r} in if z < low || z > high then 0 else z)" if "t." in o else r

    def st_scan(self, e: Env, depth: int) -> str:
        return self.st_reduce(e, depth, "scan")

    def bins(self, e: Env, size: str, count: str) -> str:
        """Positions around the valid ones."""
        f = self.c([f"(j * {self.r.randint(1, 4)} + {self.iexp(e)}) % ({size} + 2) - 1", f"(j * j) % ({size} + 1)",
                    "j / 2", f"{size} - j"])  # fmt: skip
        return f"(map (\\j -> {f}) (iota {count}))"

    def st_hist(self, e: Env, depth: int) -> str:
        kind, src = self.c("vw"), self.c("vw")
        size, count = ("n" if kind == "v" else "k"), ("n" if src == "v" else "k")
        k = self.r.randrange(11)
        d = self.own(e, kind) if k <= 4 and self.p(0.5) else ""  # before what the operator may read is chosen
        is_, a = self.bins(e, size, count), self.arr(e, src)
        if k <= 4:
            o, z = self.c([("(+)", "0"), ("(*)", "1"), ("t.max", "t.lowest"), ("t.min", "t.highest"), ("(\\a b -> a + b + 0.2 * a * b)", "0"),
                           (f"(\\a b -> a + b + ({self.sx(e, 1)}) * a * b)", "0")])  # fmt: skip
            if d:
                return self.bind(e, kind, f"map small (reduce_by_index {d} {o} {z} {is_} {a})")
            return self.bind(e, kind, f"map (\\z -> if z < low || z > high then 0 else small z) (hist {o} {z} {size} {is_} {a})")
        if k == 5:
            b = self.arr(e, src)
            x, y = self.name("h"), self.name("h")
            o, z = self.pairop(e)
            return (f"let ({x}, {y}) = unzip (hist {o} {z} {size} {is_} (zip {a} {b})) in "
                    + self.bind(e, kind, f"map2 (\\p q -> small (p - 0.5 * (if q < low then 0 else q))) {x} {y}"))  # fmt: skip
        if k == 6:
            b = self.arr(e, src)
            x, y = self.name("h"), self.name("h")
            return (f"let ({x}, {y}) = unzip (reduce_by_index (replicate {size} (1, 0)) lin (1, 0) {is_} (zip (map unit {a}) {b})) in "
                    + self.bind(e, kind, f"map2 (\\p q -> small (p - 0.5 * q)) {x} {y}"))  # fmt: skip
        if k == 7:
            b = self.arr(e, src)
            x = self.name("h")
            return (f"let {x} = hist mm2 [[1, 0], [0, 1]] {size} {is_} (map2 (\\x y -> [[unit x, small y], [x * 0.25, 0.5]]) {a} {b}) in "
                    + self.bind(e, kind, f"map (\\q -> small (q[0, 0] + q[0, 1] * q[1, 0] - q[1, 1])) {x}"))  # fmt: skip
        if k in (8, 9):
            o, z = self.c([("map2 (+)", "0"), ("map2 (*)", "1"), ("map2 t.max", "t.lowest"), ("map2 (\\a b -> a + b + 0.1 * a * b)", "0")])
            d = self.own(e, "m")
            is_ = self.bins(e, "n", "n")
            m = self.arr(e, "m") if not d.startswith("m") else f"(replicate n {self.arr(e, 'w')})"
            return self.bind(e, "m", f"map (map small) (reduce_by_index {d} ({o}) (replicate k {z}) {is_} {m})")
        d = self.own(e, "m")
        o, z = self.c([("(+)", "0"), ("(*)", "1"), ("t.max", "t.lowest")])
        iss = f"(map (\\j -> ((j * 2) % (n + 1), (j * 3 + 1) % (k + 1))) (iota {count}))"
        return self.bind(e, "m", f"map (map small) (reduce_by_index_2d {d} {o} {z} {iss} {a})")

    def st_scatter(self, e: Env, depth: int) -> str:
        kind, src = self.c("vw"), self.c("vw")
        size, count = ("n" if kind == "v" else "k"), ("n" if src == "v" else "k")
        where = self.c([f"(map (\\j -> {size} - j) (iota {count}))", f"(map (\\j -> 2 * j - 1) (iota {count}))",
                        f"(iota {count})", f"(map (\\j -> if j % 2 == 0 then j else -1) (iota {count}))"])  # fmt: skip
        if self.p(0.15):
            self.dups = True
            where = f"(map (\\j -> j / 2) (iota {count}))"
        a = self.arr(e, src)
        if self.p(0.3):
            m = self.arr(e, "m")
            d = self.own(e, "m") if m not in e.fresh else f"(copy {m})"
            return self.bind(e, "m", f"scatter {d} {where.replace(f'iota {count}', 'iota n')} {m}")
        d = self.own(e, kind) if a not in e.fresh else f"(copy {self.arr(e, kind)})"
        return self.bind(e, kind, f"scatter {d} {where} {a}")

    def iteration(self, e: Env, kind: str, x: str, depth: int) -> str:
        """What an iteration makes of the loop variable x (own, of kind)."""
        size = {"v": "n", "w": "k"}.get(kind, "")
        if kind == "s":
            return self.block(e.inside(), depth, lambda q: f"small ({x} + {self.sx(q)})" if self.p(0.7) else self.sx(q))
        reads = e.inside()
        if kind in "vw":

            def here(q: Env) -> str:
                return f"{x}[{self.at(q, size)}]"

            def upd(q: Env) -> str:
                val = self.c([f"small ({here(q)} * {self.sx(q, 1)})", f"({here(q)} + {self.sx(q, 1)}) * 0.5", f"wave {here(q)}"])
                up = f"({x} with [{self.at(q, size)}] = {val})"
                return self.c([up, f"(if {self.cond(q)} then {up} else {x})", f"put {x} {self.at(q, size)} ({val})",
                               f"map (\\z -> small (z * {self.sx(q, 1)})) {x}",
                               f"(let o = {here(q)} in loop {x} for l < 2 do {x} with [({self.iexp(q)} + l) % {size}] = small (o + {x}[l % {size}]))",
                               f"(let y = map (\\l -> {x}[(l + {self.iexp(q)}) % {size}] * {self.sx(q, 1)}) (iota {size}) in scatter {x} (map (\\l -> if l % 2 == {self.r.randint(0, 1)} then l else -1) (iota {size})) y)",
                               f"(let (y, _) = loop (z, c) = ({x}, 0) while c < {self.r.randint(1, 3)} && z[c % {size}] < 0.9 do (z with [(c + {self.iexp(q)}) % {size}] = small (z[c % {size}] + {self.sx(q, 1)}), c + 1) in y)",
                               ])  # fmt: skip

            return self.block(reads, depth, lambda q: f"(if {size} > 0 then {upd(q)} else {x})")

        def updm(q: Env) -> str:
            i, j = self.at(q, "n"), self.at(q, "k")
            return self.c([f"({x} with [{i}, {j}] = small ({x}[{self.at(q, 'n')}, {self.at(q, 'k')}] * {self.sx(q, 1)}))",
                           f"({x} with [{i}] = map (\\z -> wave z * {self.sx(q, 1)}) {x}[{self.at(q, 'n')}])",
                           f"(loop {x} for l < k do {x} with [{i}, l] = small ({x}[{self.at(q, 'n')}, l] + {self.sx(q, 1)}))",
                           f"(loop {x} for l < n do loop {x} for p < k do {x} with [l, p] = small ({x}[l, (p + 1) % k] * {x}[(l + 1) % n, p] + 0.3))",
                           f"map (\\r -> map (\\z -> z * {self.sx(q, 1)}) r) {x}",
                           f"({x} with [:, {j}] = map (\\z -> z * 0.5 + {self.sx(q, 1)}) {x}[:, {j}])"])  # fmt: skip
        return self.block(reads, depth, lambda q: f"(if n > 0 && k > 0 then {updm(q)} else {x})")

    def strip(self) -> str:
        return self.c(["", "", "", "", "#[stripmine(1)] ", "#[stripmine(2)] "])

    def st_loop(self, e: Env, depth: int) -> str:
        kinds = self.c([["s"], ["v"], ["w"], ["m"], ["s", "v"], ["s", "s"], ["v", "w"], ["s", "m"]])
        inits = []
        for kd in kinds:
            inits.append(self.sx(e, 1) if kd == "s" else self.own(e, kd))
        names = [self.name("l" + kd) for kd in kinds]
        i = self.name("i")
        inner = e.inside()
        over = self.c(["n", "k", "3", "4", "5", "(n + 2)", "1", "(n % 3)"])
        head = f"for {i} < {over}"
        if self.p(0.2):
            x = self.name("x")
            inner.s.append(x)
            head = f"for {x} in {self.arr(e, self.c('vw'))}"
        else:
            inner.i.append(i)
        inner.s += [nm for nm, kd in zip(names, kinds, strict=True) if kd == "s"]
        steps = []
        # arrays among the loop variables are read before any is consumed
        for nm, kd in zip(names, kinds, strict=True):
            if kd in "vwm" and self.p(0.6):
                q = self.name("o")
                sz = {"v": f"{nm}[{self.at(inner, 'n')}]", "w": f"{nm}[{self.at(inner, 'k')}]",
                      "m": f"{nm}[{self.at(inner, 'n')}, {self.at(inner, 'k')}]"}[kd]  # fmt: skip
                g = {"v": "n > 0", "w": "k > 0", "m": "n > 0 && k > 0"}[kd]
                steps.append(f"let {q} = (if {g} then {sz} else 0.5) in")
                inner.s.append(q)
        outs = [self.iteration(inner, kd, nm, depth + 1) for nm, kd in zip(names, kinds, strict=True)]
        pat = names[0] if len(names) == 1 else f"({', '.join(names)})"
        init = inits[0] if len(names) == 1 else f"({', '.join(inits)})"
        out = outs[0] if len(names) == 1 else f"({', '.join(outs)})"
        res = [self.name(kd) for kd in kinds]
        for nm, kd in zip(res, kinds, strict=True):
            getattr(e, kd).append(nm)
            if kd in "vwm":
                e.fresh.add(nm)
        lhs = res[0] if len(res) == 1 else f"({', '.join(res)})"
        return f"let {lhs} = {self.strip()}loop {pat} = {init} {head} do ({' '.join(steps)} {out})"

    def st_while(self, e: Env, depth: int) -> str:
        kd = self.c("svwm")
        init = self.sx(e, 1) if kd == "s" else self.own(e, kd)
        nm, cn, iterations = self.name("l"), self.name("c"), self.r.randint(1, 5)
        inner = e.inside()
        inner.i.append(cn)
        if kd == "s":
            inner.s.append(nm)
        more = {"s": f"&& {nm} < 0.8765", "v": f"&& (n == 0 || {nm}[{cn} % n] < 0.9123)"}.get(kd, "") if self.p(0.6) else ""
        attr = self.c(["", "", "#[bound(7)] ", "#[bound(9), stripmine(1)] ", "#[stripmine(1)] "])
        attr = attr.replace("#[bound(9), stripmine(1)]", "#[bound(9)] #[stripmine(1)]")
        out = self.iteration(inner, kd, nm, depth + 1)
        res, cc = self.name(kd), self.name("c")
        getattr(e, kd).append(res)
        e.i.append(cc)
        if kd in "vwm":
            e.fresh.add(res)
        return f"let ({res}, {cc}) = {attr}loop ({nm}, {cn}) = ({init}, 0) while {cn} < {iterations} {more} do ({out}, {cn} + 1)"

    def st_if(self, e: Env, depth: int) -> str:
        kd = self.c("svwm")
        if kd == "s":
            return self.bind(e, "s", f"if {self.cond(e)} then {self.block(e.inside(), depth + 1, self.sx)} else {self.block(e.inside(), depth + 1, self.sx)}")
        cond = self.cond(e)
        if self.p(0.5):
            x = self.own(e, kd)
            nm = self.name("z")
            one = self.iteration(e.inside(), kd, nm, depth + 1)
            two = self.c([nm, self.iteration(e.inside(), kd, nm, depth + 1)])
            return self.bind(e, kd, f"(let {nm} = {x} in if {cond} then {one} else {two})", fresh=False)
        a, b = self.arr(e, kd), self.arr(e, kd)
        return self.bind(e, kd, f"if {cond} then {a} else {b}", fresh=False)

    def st_layout(self, e: Env, depth: int) -> str:
        m, v, w = self.arr(e, "m"), self.arr(e, "v"), self.arr(e, "w")
        return self.c([
            lambda: self.bind(e, "v", f"reverse {v}", False), lambda: self.bind(e, "v", f"rotate {self.iexp(e)} {v}", False),
            lambda: self.bind(e, "m", f"transpose (map (\\c -> map small c) (transpose {m}))", False),
            lambda: self.bind(e, "m", f"unflatten (map wave (flatten {m}))", False),
            lambda: self.bind(e, "v", f"(concat {v} {w})[:n]", False),
            lambda: self.bind(e, "m", f"replicate n {w}"), lambda: self.bind(e, "w", f"(if n > 0 then {m}[{self.at(e, 'n')}] else {w})", False),
            lambda: self.bind(e, "v", f"(if k > 0 then {m}[:, {self.at(e, 'k')}] else {v})", False),
            lambda: self.bind(e, "m", f"map2 (\\x y -> map (* y) x) {m} {v}"),
            lambda: self.bind(e, "m", f"{m}[::-1, ::-1] :> [n][k]t", False),
            lambda: self.bind(e, "v", f"map (\\(a, b) -> small (a * b)) (zip {v} (map (.0) (zip {v} (iota n))))"),
        ])()  # fmt: skip

    def st_filter(self, e: Env, depth: int) -> str:
        kd = self.c("vw")
        a, u = self.arr(e, kd), self.name("u")
        size = "n" if kd == "v" else "k"
        first = self.c([
            f"let {u} = filter (\\z -> z < {self.c(['0.2345', '0.6543'])}) {a} in",
            f"let ({u}, {u}b) = partition (\\z -> z > 0.1765) {a} in let {u} = concat {u}b {u} in",
            f"let {u} = map (\\(x, _) -> x) (filter (\\(_, j) -> j % 2 == {self.r.randint(0, 1)}) (zip {a} (iota {size}))) in",
            f"let {u} = concat {a} (map wave {a}) in",
            f"let {u} = {a}[:{size} / 2] in", f"let {u} = {a}[::2] in",
            f"let {u} = flatten (map (\\z -> [z, z * z, 1]) {a}) in",
            f"let {u} = flatten (map (\\z -> map (\\j -> z * t.i64 j) (iota ({size} / 2 + 1))) {a}) in",
        ])  # fmt: skip
        lam = self.lam(e, "s", depth, lambda q: self.sx(q))
        last = self.c([f"small (t.sum (map ({lam}) {u}))", f"small (reduce (\\a b -> a + b + 0.1 * a * b) 0 (map small {u}))",
                       f"t.sum (scan (+) 0 (map (\\z -> 0.1 * small z) {u}))",
                       f"small (t.i64 (length {u}) * 0.1 + (if length {u} > 0 then last {u} else 0.3))",
                       f"small (foldl (\\a z -> small (a + z)) 0.1 {u})",
                       f"(loop a = 0.1 for j < length {u} do small (a * {u}[j] + 0.4))",
                       f"small (t.sum (let z = copy {u} in loop z for j < length {u} do z with [j] = small (z[j] * z[length {u} - 1 - j])))"])  # fmt: skip
        return f"{first} " + self.bind(e, "s", last)

    def st_record(self, e: Env, depth: int) -> str:
        match self.r.randrange(5):
            case 0:
                r = self.name("rec")
                return (f"let {r}: pair = {{a = {self.sx(e)}, b = {self.sx(e)}}} in let {r} = {r} with a = {r}.b * {r}.a in "
                        + self.bind(e, "s", f"small ({r}.a + {r}.b)"))  # fmt: skip
            case 1:
                q = f"(if {self.cond(e)} then #disc ({self.sx(e)}) else if {self.cond(e)} then #box ({self.sx(e)}) ({self.sx(e)}) else #none)"
                return self.bind(e, "s", f"small (area {q})")
            case 2:
                kd = self.c("vw")
                a = self.arr(e, kd)
                return self.bind(e, kd, f"map (\\q -> small (area q)) (map (\\z -> if z < 0.3217 then #disc z else #box z ({self.sx(e, 1)})) {a})")
            case 3:
                f = self.name("fn")
                lam = self.lam(e, "s", depth, lambda q: self.sx(q))
                return f"let {f} = ({lam}) in " + self.bind(e, "s", f"twice {f} ({self.sx(e)})")
            case _:
                kd = self.c("vw")
                a = self.arr(e, kd)
                lam = self.lam(e, "ss", depth, lambda q: f"small ({self.sx(q)})")
                q = self.c(["foldl", "foldr"])
                return self.bind(e, "s", f"{q} ({lam}) ({self.sx(e, 1)}) {a}")

    def st_deriv(self, e: Env, depth: int) -> str:
        kd = self.c("svw")
        if kd == "s":
            lam = self.lam(e, "s", depth, lambda q: self.sx(q, 3))
            return self.bind(e, "s", self.c([f"small (vjp ({lam}) ({self.sx(e, 1)}) 1)", f"small (jvp ({lam}) ({self.sx(e, 1)}) 1)"]))
        a, b = self.arr(e, kd), self.arr(e, kd)
        lam = self.lam(e, "s", depth, lambda q: self.sx(q, 3))
        size = "n" if kd == "v" else "k"
        return self.bind(e, kd, self.c([
            f"map (\\z -> small (vjp ({lam}) z 1)) {a}", f"map (\\z -> small (jvp ({lam}) z 0.5)) {a}",
            f"map small (vjp (\\z -> map ({lam}) z) {a} {b})", f"map small (jvp (\\z -> scan (+) 0 (map ({lam}) z)) {a} {b})",
            f"map small (vjp (\\z -> t.sum (map ({lam}) z)) {a} 1)",
            f"map small (vjp (\\z -> loop z = copy z for j < {size} do z with [j] = small (z[{size} - 1 - j] * z[j] + {self.sx(e, 1)})) {a} {b})",
        ]))  # fmt: skip

    def st_custom(self, e: Env, depth: int) -> str:
        if not self.smooth:
            return self.st_map(e, depth)
        x = self.sx(e)
        if self.p(0.5):
            return self.bind(e, "s", self.c([f"with_vjp (\\x -> t.exp x) (\\y dy -> y * dy) (small ({x}))",
                                             f"with_vjp_tape (\\x -> (x, t.sin x)) (\\(x, dy) -> t.cos x * dy) ({x})"]))  # fmt: skip
        kd = self.c("vw")
        a = self.arr(e, kd)
        exp = self.c([
            f"with_vjp_tape (\\xs -> (xs, map t.sin xs)) (\\(xs, ds) -> map2 (\\x d -> t.cos x * d) xs ds) {a}",
            f"map (\\x -> with_vjp_tape (\\x -> (x, t.sin x)) (\\(x, dy) -> t.cos x * dy) x) {a}"])  # fmt: skip
        return self.bind(e, kd, exp, fresh=exp.startswith("map"))  # what a function returns may be its argument

    def st_update(self, e: Env, depth: int) -> str:
        kd = self.c("vwm")
        x = self.own(e, kd)
        nm = self.name("z")
        return self.bind(e, kd, f"(let {nm} = {x} in {self.iteration(e, kd, nm, depth + 1)})", fresh=False)

    def st_stencil(self, e: Env, depth: int) -> str:
        v = self.arr(e, "v")
        return self.bind(e, "v", f"map (\\j -> small ({v}[(j + 1) % n] * {v}[(j + n - 1) % n] + {self.sx(e, 1)} * {v}[j])) (iota n)")

    def st_sort(self, e: Env, depth: int) -> str:
        v = self.arr(e, "v")
        return self.bind(e, "v", f"(loop z = copy {v} for j < n do loop z for l < n - 1 - j do if z[l] > z[l + 1] then (let (p, q) = (z[l], z[l + 1]) in let z = z with [l] = q in z with [l + 1] = p) else z)")

    def st_acc(self, e: Env, depth: int) -> str:
        v, m = self.arr(e, "v"), self.arr(e, "m")
        return self.c([
            lambda: self.bind(e, "w", f"map small (reduce (map2 (+)) (replicate k 0) (map2 (\\r x -> map (\\z -> z * x + {self.sx(e, 1)}) r) {m} {v}))"),
            lambda: self.bind(e, "v", f"(let a = copy {v} in add_to a (map (\\j -> (j * 3) % (n + 1)) (iota k)) ({self.sx(e, 1)}))"),
            lambda: self.bind(e, "m", f"map (\\r -> map (\\c -> small (t.sum (map2 (*) r c))) (transpose (replicate k {self.arr(e, 'w')}) )) {m} :> [n][k]t"),
            lambda: self.bind(e, "s", f"small (t.sum (map (\\j -> {v}[(j * j) % n] * {self.sx(e, 1)}) (iota n)))"),
        ])()  # fmt: skip

    def st_growing(self, e: Env, depth: int) -> str:
        v, u, i = self.arr(e, self.c("vw")), self.name("u"), self.name("i")
        inner = e.inside()
        inner.i.append(i)
        body = self.c([f"concat {u} [small ({self.sx(inner, 1)} + t.sum {u})]", f"map (\\z -> z * 0.9) {u}[:length {u} - length {u} / 3]",
                       f"(if {i} % 2 == 0 then concat (map wave {u}) {u}[:length {u} / 2] else {u}[(if length {u} > 0 then 1 else 0):])",
                       f"filter (\\z -> z < 0.4567) (map (\\z -> z * 1.1 + 0.01) {u})"])  # fmt: skip
        return (f"let {u} = {self.strip()}loop ({u}: []t) = copy {v} for {i} < {self.c(['3', '4', '(n % 4)', '0'])} do ({body}) in "
                + self.bind(e, "s", f"small (t.sum {u} + 0.1 * t.i64 (length {u}))"))  # fmt: skip

    def st_flat(self, e: Env, depth: int) -> str:
        # irregular: each element has its own number of iterations or elements
        v = self.arr(e, "v")
        lam = self.lam(e, "s", depth, lambda q: self.sx(q))
        return self.bind(e, "v", self.c([
            f"map2 (\\j z -> t.sum (map (\\l -> small (z * t.i64 l + {self.sx(e, 1)})) (iota (j % 4)))) (iota n) {v}",
            f"map2 (\\j z -> loop a = z for l < j % 4 do small (a * z + {self.sx(e, 1)})) (iota n) {v}",
            f"map2 (\\j z -> (loop (a, c) = (z, 0) while c < 5 && a < 0.7531 do (a * 1.3 + 0.11, c + 1)).0) (iota n) {v}",
            f"map (\\z -> let ys = map (\\j -> z * t.i64 j) (iota n) in let ys = if n > 2 then ys with [2] = z * z else ys in small (t.sum (map ({lam}) ys))) {v}",
            f"map (\\z -> small (t.sum (hist (+) 0 3 (map (\\j -> j % 3) (iota n)) (map (* z) {v})) * {self.sx(e, 1)})) {v}",
        ]))  # fmt: skip

    def text(self) -> str:
        """The function f."""
        e = Env(s=["s"], v=["xs"], m=["ms"])
        lets = []
        while self.budget > 0:
            self.budget -= 1
            lets.append(self.stm(e, 0))
        outs = [self.sx(e, 3), self.arr(e, "v"), self.arr(e, "w"), f"(t.sum (map t.sum {self.arr(e, 'm')}))"]
        for x in e.s[1:]:  # nothing is dead
            outs[0] += f" + 0.3 * {x}"
        for x in e.v[1:]:
            outs[0] += f" + 0.2 * t.sum {x}"
        for x in e.w:
            outs[0] += f" + 0.1 * t.sum {x}"
        for x in e.m[1:]:
            outs[3] += f" + 0.1 * t.sum (map t.sum {x})"
        body = "\n  ".join([x + " in" for x in lets])
        return (f"def f [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) : (t, [n]t, [k]t, t) =\n  {body}\n  ({', '.join(outs)})\n")


def _of_integers(text: str) -> str:
    """With integers in place of all fractions and large numbers."""
    text = re.sub(r"\(-\d+\.\d+\)", "(0 - 3)", text)
    return re.sub(r"\b\d+\.\d+\b", lambda m: str((2, 3, 5, 7)[int(m[0].replace(".", "")) % 4]), text)


def head(elem: str) -> str:
    """What programs over `elem` have in front."""
    smooth = elem.startswith("f")
    text = HEAD + (FLOATS if smooth else INTEGERS)
    return f"module t = {elem}\ntype t = {elem}\n" + (text if smooth else _of_integers(text))


def function(seed: int, elem: str = "f64", size: int = 9) -> tuple[str, bool]:
    """The function `f` to stand behind `head(elem)`, and whether a scatter in it has several values for one place (then
    not all backends agree)."""
    g = Gen(seed, size, elem.startswith("f"))
    text = g.text()
    return (text if g.smooth else _of_integers(text)), g.dups


def source(seed: int, elem: str = "f64", size: int = 9) -> tuple[str, bool]:
    """The whole program, and what `function` says of it."""
    text, dups = function(seed, elem, size)
    return head(elem) + text, dups
