-- Functions as arguments and results, partial application, closures over values, functions in records.
-- ==
-- input { [1.0, 2.0] 3.0 }
-- output { [5.0, 7.0] [4.0, 5.0] 9.0 10.0 [9.0, 12.0] 27.0 }
def compose_n (n: i32) (f: f64 -> f64) (x: f64): f64 = loop x for _i < n do f x

def adder (k: f64) = \x -> x + k

def apply_both (ops: {f: f64 -> f64, g: f64 -> f64}) (x: f64) = ops.f (ops.g x)

def with_scale 'a (scale: f64 -> a -> a) (k: f64) (xs: []a) = map (scale k) xs

entry main (xs: []f64) (k: f64) =
  let line a b x = a * x + b
  in ( map (line 2 k) xs
     , map (adder k) xs
     , compose_n 2 (adder k) k
     , apply_both {f = (+ 1), g = (* k)} k
     , with_scale (\s x -> s * (x + 2)) k xs
     , compose_n 3 (\x -> x * k) 1
     )
