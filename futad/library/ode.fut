-- Ordinary differential equations y' = f t y: steps of fixed length, adaptive ones, reversible ones.  See
-- docs/library.md.
--
-- Sources.  Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", 2nd edition, 1993: chapter II.1
-- (methods), II.4 (step control, the first step), II.5 (Dormand and Prince), II.6 (dense output).  Hairer, Lubich and
-- Wanner, "Geometric Numerical Integration", 2006, I.1.4 (leapfrog).

-- All of it, for floats of one type: `module ode32 = mk_ode f32`.
module mk_ode (R: float) = {
  type t = R.t

  local def along [n] (y: [n]t) (h: t) (k: [n]t): *[n]t = map2 (\y k -> y + h * k) y k

  -- Single steps of length h -----------------------------------------------------------------------------------------

  def euler_step [n] (f: t -> [n]t -> [n]t) (h: t) (time: t) (y: [n]t): *[n]t = along y h (f time y)

  def midpoint_step [n] (f: t -> [n]t -> [n]t) (h: t) (time: t) (y: [n]t): *[n]t =
    along y h (f (time + h / 2) (along y (h / 2) (f time y)))

  def rk4_step [n] (f: t -> [n]t -> [n]t) (h: t) (time: t) (y: [n]t): *[n]t =
    let k1 = f time y
    let k2 = f (time + h / 2) (along y (h / 2) k1)
    let k3 = f (time + h / 2) (along y (h / 2) k2)
    let k4 = f (time + h) (along y h k3)
    in map5 (\y a b c d -> y + h / 6 * (a + 2 * b + 2 * c + d)) y k1 k2 k3 k4

  -- Steps of fixed length ---------------------------------------------------------------------------------------------

  -- y at t1 from y at t0, by so many steps of a kind.
  def steps_of [n] (step: t -> t -> [n]t -> *[n]t) (steps: i64) (t0: t) (t1: t) (y: [n]t): *[n]t =
    let h = (t1 - t0) / R.i64 steps
    in loop y = copy y for i < steps do step h (t0 + R.i64 i * h) y

  def euler [n] (f: t -> [n]t -> [n]t) (steps: i64) (t0: t) (t1: t) (y: [n]t): *[n]t =
    steps_of (euler_step f) steps t0 t1 y
  def midpoint [n] (f: t -> [n]t -> [n]t) (steps: i64) (t0: t) (t1: t) (y: [n]t): *[n]t =
    steps_of (midpoint_step f) steps t0 t1 y
  def rk4 [n] (f: t -> [n]t -> [n]t) (steps: i64) (t0: t) (t1: t) (y: [n]t): *[n]t =
    steps_of (rk4_step f) steps t0 t1 y

  -- y at each time, the first of which is where y is given; so many steps of rk4 from one to the next.
  def rk4_at [n][m] (f: t -> [n]t -> [n]t) (steps: i64) (times: [m]t) (y: [n]t): *[m][n]t =
    let (_, ys) = loop (y, ys) = (y, replicate m y) for i < m - 1 do
      let y = rk4 f steps times[i] times[i + 1] y
      in (y, ys with [i + 1] = copy y)
    in ys

  -- Adaptive steps ----------------------------------------------------------------------------------------------------

  -- Tolerances: an error of `absolute + relative * |y|` in each component is taken as 1, in the root of the mean of
  -- squares.  More than `most` steps, refused ones included, are a failure.
  type options = {relative: t, absolute: t, most: i64}

  def tolerance (x: t): options = {relative = x, absolute = x, most = 100000}

  local def measure [n] (o: options) (y: [n]t) (z: [n]t) (e: [n]t): t =
    let terms = map3 (\y z e -> let q = e / (o.absolute + o.relative * R.max (R.abs y) (R.abs z)) in q * q) y z e
    in R.sqrt (R.sum terms / R.max 1 (R.i64 n))

  -- A number to 30 bits, without its derivative, as a float made of an integer has none.
  local def chosen (x: t): t =
    let k = 30 - R.to_i64 (R.floor (R.log2 (R.abs x)))
    in R.ldexp (R.i64 (R.to_i64 (R.ldexp x (i32.i64 k)))) (i32.i64 (-k))

  -- A step of Dormand and Prince's method: y at its end, the error, f there, and the sum for dense output.
  local def dopri_step [n] (f: t -> [n]t -> [n]t) (h: t) (time: t) (y: [n]t) (k1: [n]t): ([n]t, [n]t, [n]t, [n]t) =
    let k2 = f (time + h / 5) (along y (h / 5) k1)
    let k3 = f (time + 3 * h / 10) (map3 (\y a b -> y + h * (3 / 40 * a + 9 / 40 * b)) y k1 k2)
    let k4 = f (time + 4 * h / 5) (map4 (\y a b c -> y + h * (44 / 45 * a - 56 / 15 * b + 32 / 9 * c)) y k1 k2 k3)
    let k5 = f (time + 8 * h / 9)
               (map5 (\y a b c d ->
                        y + h * (19372 / 6561 * a - 25360 / 2187 * b + 64448 / 6561 * c - 212 / 729 * d))
                     y k1 k2 k3 k4)
    let k6 = f (time + h)
               (map2 (\y (a, b, c, d, e) -> y + h * (9017 / 3168 * a - 355 / 33 * b + 46732 / 5247 * c + 49 / 176 * d
                                                     - 5103 / 18656 * e))
                     y (zip5 k1 k2 k3 k4 k5))
    let z = map2 (\y (a, c, d, e, g) -> y + h * (35 / 384 * a + 500 / 1113 * c + 125 / 192 * d - 2187 / 6784 * e
                                                 + 11 / 84 * g))
                 y (zip5 k1 k3 k4 k5 k6)
    let k7 = f (time + h) z
    let error = map2 (\(a, c, d, e, g) k -> h * (71 / 57600 * a - 71 / 16695 * c + 71 / 1920 * d - 17253 / 339200 * e
                                                 + 22 / 525 * g - k / 40))
                     (zip5 k1 k3 k4 k5 k6) k7
    let dense = map2 (\(a, c, d, e, g) k ->
                        h * (-12715105075 / 11282082432 * a + 87487479700 / 32700410799 * c
                             - 10690763975 / 1880347072 * d + 701980252875 / 199316789632 * e
                             - 1453857185 / 822651844 * g + 69997945 / 29380423 * k))
                     (zip5 k1 k3 k4 k5 k6) k7
    in (z, error, k7, dense)

  -- The length of a first step.
  local def first_step [n] (f: t -> [n]t -> [n]t) (o: options) (span: t) (t0: t) (y: [n]t) (k: [n]t): t =
    let none = map (const 0) y
    let (d0, d1) = (measure o y none y, measure o y none k)
    let h0 = if d0 < 0.00001 || d1 < 0.00001 then 0.000001 else 0.01 * d0 / d1
    let h0 = R.min h0 (R.abs span)
    let h0 = if span < 0 then -h0 else h0
    let d2 = measure o y none (map2 (-) (f (t0 + h0) (along y h0 k)) k) / R.abs h0
    let most = R.max d1 d2
    let h1 = if most <= 0.000000000000001 then R.max 0.000001 (R.abs h0 * 0.001) else (0.01 / most) ** 0.2
    let h = R.min (R.min (100 * R.abs h0) h1) (R.abs span)
    in chosen (if span < 0 then -h else h)

  -- y at each time, the first of which is where y is given, and how many steps were tried.  Times go up or down.
  def rk45_at [n][m] (f: t -> [n]t -> [n]t) (o: options) (times: [m]t) (y: [n]t): (*[m][n]t, i64) =
    if m == 0 then (replicate m y, 0) else
    let (t0, t1) = (times[0], times[m - 1])
    let forwards = t1 >= t0
    let reached a b = if forwards then a <= b else a >= b
    let k = f t0 y
    let h = first_step f o (t1 - t0) t0 y k
    let ys = replicate m y
    let (_, _, _, _, ys, next, tried) =
      loop (time, y, k, h, ys, next, tried) = (t0, y, k, h, ys, i64.min 1 m, 0) while next < m && tried < o.most do
        let final = reached t1 (time + h * 1.0000001)
        let whole = if final then t1 - time else h
        let (z, e, k7, dense) = dopri_step f whole time y k
        let size = measure o y z e
        let good = size <= 1
        let factor = if size == 0 then 10 else R.max 0.2 (R.min 10 (0.9 * size ** (-0.2)))
        let factor = if R.isnan size then 0.2 else factor
        let end = if final then t1 else time + whole
        -- Hermite's polynomial, and a term of degree 4.
        let (ys, next) =
          if !good then (ys, next) else
          loop (ys, next) while next < m && reached times[next] end do
            let s = if whole == 0 then 1 else (times[next] - time) / whole
            let r = 1 - s
            let at y z k k7 d =
              let dy = z - y
              let b = whole * k - dy
              let c = dy - whole * k7 - b
              in y + s * (dy + r * (b + s * (c + r * d)))
            let ys = ys with [next] = if times[next] == end then copy z else map5 at y z k k7 dense
            in (ys, next + 1)
        let h = chosen (whole * factor)
        in if good then (end, z, k7, h, ys, next, tried + 1) else (time, y, k, h, ys, next, tried + 1)
    let all_times_reached = next >= m
    in assert all_times_reached (ys, tried)

  -- y at t1 from y at t0.
  def rk45 [n] (f: t -> [n]t -> [n]t) (o: options) (t0: t) (t1: t) (y: [n]t): *[n]t =
    let (ys, _) = rk45_at f o [t0, t1] y in copy ys[1]

  -- Leapfrog ----------------------------------------------------------------------------------------------------------

  -- Places q and velocities p after so many steps of length h, with q' = p and p' = force q.  Each step is undone by
  -- one of length -h, so that gradients need no memory where iterations may be undone (`reversible=True`).
  def leapfrog [n] (force: [n]t -> [n]t) (steps: i64) (h: t) (q: [n]t) (p: [n]t): (*[n]t, *[n]t) =
    loop (q, p) = (copy q, copy p) for _i < steps do
      let p = along p (h / 2) (force q)
      let q = along q h p
      in (q, along p (h / 2) (force q))
}

open mk_ode f64
