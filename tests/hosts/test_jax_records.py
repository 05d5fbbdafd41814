"""Records are pytrees of JAX in every order of imports and uses, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.slow import slow_but

pytest.importorskip("jax")

MADE = """
made = futad.compile("entry f (x: f64): {b: f64, a: f64} = {b = x, a = x * x}", backend="interp").f(3.0)
"""
# What a process does before records are used as pytrees; `made` is one.
ORDERS = {
    "a record, then jax": "import futad" + MADE + "assert 'jax' not in sys.modules\nimport jax",
    "looked for, then jax": "import futad, importlib.util" + MADE + "importlib.util.find_spec('jax')\nimport jax",
    "jax first": "import jax, futad" + MADE,
    "only the class": "import futad\nmade = futad.Record(b=3.0, a=9.0)\nimport jax",
    "the class from its module": "import jax\nfrom futad import Record\nmade = Record(b=3.0, a=9.0)",
    "futad.jax.compile": "import futad, futad.jax" + MADE + """
import numpy as np
e = futad.jax.compile(lambda x: {"b": x, "a": x * x}, 1.0, backend="interp")
made = e(np.float32(3.0))
import jax
""",
    "futad.jax.function": "import futad, futad.jax" + MADE + "futad.jax.function\nimport jax",
    "jax within a function of it": "import futad" + MADE + "exec('from jax import numpy')\nimport jax",
}  # fmt: skip
USE = """
leaves = jax.tree_util.tree_leaves_with_path(made)
assert sorted([(path[0].key, float(x)) for path, x in leaves]) == [("a", 9.0), ("b", 3.0)], leaves
again = jax.tree.map(lambda x: 2 * x, made)
assert type(again) is futad.Record and (again.a, again["b"]) == (18.0, 6.0), again
assert list(again) == list(made)
print("a pytree")
"""


def run(code: str) -> str:
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.mark.parametrize("order", slow_but(("a record, then jax",), ORDERS))
def test_records_are_pytrees(order: str) -> None:
    assert run("import sys\n" + ORDERS[order] + "\nimport futad\n" + USE) == "a pytree\n"


@pytest.mark.slow
def test_jax_is_not_imported_and_may_be_missing(tmp_path: Path) -> None:
    """Nor does a package of that name that cannot be imported become one that can."""
    (tmp_path / "jax.py").write_text("raise ImportError('broken')\n")
    code = f"import sys\nimport futad{MADE}assert made.a == 9 and 'jax' not in sys.modules\n"
    code += f"sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "for _ in range(2):\n  try: import jax\n  except ImportError as e: print(e)\n"
    assert run(code) == "broken\nbroken\n"
