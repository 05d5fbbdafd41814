-- What the lookups of rsbench.fut and xsbench.fut draw, each on its own: numbers 2 i and 2 i + 1 of a linear
-- congruential generator modulo 2 ** 63.

local def modulus: u64 = 9223372036854775808
local def factor: u64 = 2806196910506780709

local def next (seed: u64): u64 = (factor * seed + 1) % modulus

local def uniform (seed: u64): f64 = f64.u64 seed / f64.u64 modulus

-- The seed after n steps: x -> a x + c, composed with itself along the binary digits of n.
local def after (n: i64) (seed: u64): u64 =
  let (_, a, c, _, _) =
    loop (n, a, c, step_a, step_c) = (u64.i64 n, 1, 0, factor, 1) while n > 0 do
      let (a, c) = if n & 1 == 1 then (step_a * a, step_a * c + step_c) else (a, c)
      in (n >> 1, a, c, step_a * step_a, step_a * step_c + step_c)
  in (a * seed + c) % modulus

-- Where the parts of the core that materials 1 to 11 take up end; the rest is fuel, material 0.
local def ends: [11]f64 = [0.052, 0.327, 0.461, 0.615, 0.679, 0.745, 0.8, 0.808, 0.823, 0.848, 0.861]

-- The energy in [0, 1) and the material (of 12) of lookup i.
def drawn (i: i64): (f64, i64) =
  let first = next (after (2 * i) 1070)
  let roll = uniform (next first)
  let before = i64.sum (map (\end -> i64.bool (roll >= end)) ends)
  in (uniform first, if before == 11 then 0 else before + 1)
