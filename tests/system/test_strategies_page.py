"""The page on strategies: its programs in Python, run one after the other as they stand."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "strategies.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@needs_cc
def test_programs_of_the_page(tmp_path, monkeypatch, capsys):
    shutil.copy(ROOT / "benchmarks" / "programs" / "gmm.fut", tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, names)  # noqa: S102
    assert "pass fuse\napply normalize(fold | unit)" in capsys.readouterr().out
    program = names["program"]
    assert program.main(3.0) == 9.0 and program.trace.hits["mul_self"] == 1


@pytest.mark.slow
def test_rules_of_the_page_are_rules():
    from futad import strategies

    rule = re.search(r"^    rule scale_out_of_sum:.*?changes nan\n", PAGE, re.MULTILINE | re.DOTALL)
    assert rule is not None
    assert strategies.check_rule(strategies.rule(rule[0]), cases=20).ok
    wrong = strategies.rule(rule[0].replace("changes nan", ""))
    assert "result 0 is 0.0, afterwards nan" in str(strategies.check_rule(wrong).counterexample)
