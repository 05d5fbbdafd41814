-- Programs that tempt maps whose branches have loops of few iterations to become straight lines of scalars.

-- What a branch stores is read where the place depends on the data.
entry read_back [n] (xs: [n][3]f64) (ls: [n]f64): ([n][3]f64, [n]f64) =
  unzip (map2 (\x l ->
    if l > 0.5 then
      let b = if l > 0.75 then map (\v -> f64.exp (f64.sin v) / l) x else map (\v -> v - l) x
      in (b, b[i64.f64 (l * 8) % 3])
    else ([l, l, l], l)) xs ls)

-- Two values for one element, where the places depend on the data.
entry stored_twice [n] (xs: [n][3]f64) (ps: [n]i64) (qs: [n]i64): [n][3]f64 =
  map3 (\x p q ->
    if x[0] < 0.5 then
      let r = copy x
      let r[p] = f64.sqrt (5 + x[1] * x[1])
      let r[q] = f64.exp x[2]
      let r[p] = 7
      in r
    else
      let r = map (+ 1) x
      let r[q] = 1
      let r[p] = x[2]
      in r) xs ps qs
