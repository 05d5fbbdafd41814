"""`futad dev --check-rules`: rules of a file, a line each or the program in which one is wrong."""

from __future__ import annotations

import pytest

from futad.cli import main

GOOD = "rule good:\n  let ?z: i64 = add(?x, ?x)\n  =>\n  let ?z = mul(?x, 2i64)\n"
BAD = "rule bad:\n  let ?z: i64 = sub(?x, ?y)\n  =>\n  let ?z = sub(?y, ?x)\n"


@pytest.mark.parametrize(
    ("text", "cases", "code", "told"),
    [
        (GOOD, "20", 0, "1 rules, 0 not right"),
        (GOOD + BAD, "20", 1, "rule bad: result 0 is"),
        (BAD.replace("sub(?y, ?x)", "lt(?y, ?x)"), "20", 1, "own.rules:4:3: error: rule bad: types do not fit"),
        ("-- none\n", "20", 2, "own.rules has no rules"),
        (GOOD, "0", 2, "--cases is at least 1"),
    ],
)
def test_rules_of_a_file(text, cases, code, told, tmp_path, capsys):
    path = tmp_path / "own.rules"
    path.write_text(text)
    assert main(["dev", "--check-rules", str(path), "--cases", cases]) == code
    out = capsys.readouterr()
    assert told in out.out + out.err and "Traceback" not in out.err
