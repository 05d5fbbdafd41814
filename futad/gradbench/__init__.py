"""futad as a tool of GradBench (github.com/gradbench/gradbench), a benchmark suite for automatic differentiation.

`modules` says how each function of each eval is computed, `protocol` speaks the suite's protocol.
"""
