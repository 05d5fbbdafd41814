"""Random programs against the compiler: `python -m futad.testing.fuzz --seconds 60 --seed 1`.

Each program is compiled and called on a backend, its value and its derivatives of first and second order, at sizes
from 0 to 9.  They must be equal to the interpreter's, reverse mode to forward mode by the dot-product identity, and
smooth ones to central differences; whatever crashes, hangs, is refused or fails a check of the IR is found too.

`cases` says what is tried, `batch` tries the programs of one file, `workers` shares the files out to processes,
`oracle` compares, `shrink` makes a finding small, `__main__` is the command.
"""
