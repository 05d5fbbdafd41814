"""Schedules as text: what is printed is read back, edited, checked, and wrong text says where and why."""

from __future__ import annotations

import pytest

from futad import strategies as s
from futad.errors import FileError, UsageError
from futad.pipeline import NEEDED, ORDER
from futad.rewrite.strategy import Rules
from futad.rewrite.words import Picks

TEXTS = [
    "id", "fail", "fold", "fold | unit", "fold ; unit", "(fold ; unit) | id", "(fold | unit) ; id",
    "normalize(fold | unit)", "innermost(try(fold))", "repeat((fold | unit) ; id)", "fix(self -> try(fold ; self))",
    "fix(self -> fix(self1 -> self ; self1))", 'at("main") ; topdown(fold)', 'at("p.fut:3") ; bottomup(fold)',
    "limit(3, repeat(fold))", 'where("reduce") ; some(one(all(fold)))',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_strategies_read_what_they_print(text: str) -> None:
    assert str(s.parse(text)) == text


def test_python_values_print_as_text() -> None:
    fold, unit = s.parse("fold"), s.parse("unit")
    assert str(s.normalize(fold | unit)) == "normalize(fold | unit)"
    assert str(s.fix(lambda x: s.try_(fold >> x))) == "fix(self -> try(fold ; self))"
    assert isinstance(s.parse("fold | unit"), Rules), "rules are dispatched by what they are for"
    assert str(s.at("f", s.where("map", fold))) == 'at("f") ; (where("map") ; fold)'
    assert str(s.parse('at("f", where("map", fold))')) == 'at("f") ; (where("map") ; fold)'
    assert s.seq() is s.id and s.choice() is s.fail


def test_the_default_schedule_is_read_back() -> None:
    d = s.default()
    s.check(d)
    assert s.parse(str(d)) == d and hash(s.parse(str(d))) == hash(d)
    assert "pass fuse\n" in str(d) and "enter: fold | unit" in str(d)


def test_what_is_needed_and_ordered_are_passes() -> None:
    names = set(s.default().names)
    assert set(NEEDED) <= names and all({a, b} <= names for a, b, _ in ORDER)
    at = s.default().names.index
    assert all(at(a) < at(b) for a, b, _ in ORDER)


def test_edits_are_read_back_and_leave_the_original() -> None:
    d = s.default()
    made = d.before("fuse", "normalize(fold)").after("hoist", s.parse("topdown(unit)")).without("sink-updates")
    made = made.without("one_hot").replace("views", "id").nest("gmm.fut:55#2", "jam(2) ; no rows")
    assert s.parse(str(made)) == made and made != d and s.default() == d
    names = made.names
    assert names[names.index("fuse") - 1] == "normalize(fold)" and names[names.index("hoist") + 1] == "topdown(unit)"
    assert "views" not in names and "sink-updates" not in names and "one_hot" not in str(made)
    changes = 'before fuse: normalize(fold)\nafter hoist: topdown(unit)\nwithout sink-updates\nwithout one_hot\n'
    changes += 'replace views: id -- not needed\n\nnest "gmm.fut:55#2": jam(2)\n  ; no rows\n'
    assert s.parse(changes) == made
    s.check(made)


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("pass", 1, "a pass is expected, not the end"),
        ("-- c\nbefor fuse: id", 2, "'befor' begins no line of a schedule"),
        ("\n\nbefore fus: id", 3, "the schedule has no 'fus'"),
        ("before fuse: normalize(fol)", 1, "no rule or strategy is called 'fol'"),
        ('before fuse: topdown(where("reduse") ; fold)', 1, "no construct or scalar operation is called 'reduse'"),
        ("before fuse: normaliz(fold)", 1, "no strategy is called 'normaliz'"),
        ("before fuse: repeat(id", 1, "'\\)' is expected, not the end"),
        ("before fuse: limit(x, id)", 1, "a number is expected, not 'x'"),
        ("before fuse: at(main)", 1, "quotation marks"),
        ("before fuse: id id", 1, "nothing more is expected here, not 'id'"),
        ("enter fold", 1, "':' is expected, not 'fold'"),
        ("without nothing", 1, "the schedule has no 'nothing'"),
        ('nest "x": jam', 1, "'x' names no nest"),
        ('nest "x.fut:3": jam(', 1, "a number is expected, not the end"),
        ('nest "x.fut:3": no', 1, "a transformation is expected"),
        ("42", 1, "expected, not '42'"),
        ('after fuse: "', 1, "is expected"),
    ],
)
def test_wrong_files_name_the_line_and_the_cause(tmp_path, text: str, line: int, cause: str) -> None:
    path = tmp_path / "wrong.sched"
    path.write_text(text)
    with pytest.raises(UsageError, match=cause) as e:
        s.load_schedule(path)
    assert e.value.span is not None and e.value.span.line == line and e.value.span.file == str(path)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda d: d.without("ad"), "'ad' is needed: no backend runs derivatives"),
        (lambda d: d.without("inline"), "'inline' is needed"),
        (lambda d: d.replace("ad", "id"), "'ad' is needed"),
        (lambda d: s.parse(str(d).replace("pass fuse\n", "").replace("pass ad\n", "pass fuse\npass ad\n")),
         "'ad' must come before 'fuse'"),
        (lambda d: s.parse(str(d).replace("pass fuse\n", "pass fus\n")), "no pass is called 'fus'"),
        (lambda d: s.parse(str(d) + "pass fuse\n"), "'fuse' is there twice"),
        (lambda d: "pass ad", "a schedule is needed, not str"),
    ],
)  # fmt: skip
def test_schedules_that_do_not_work_are_refused(change, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        s.check(change(s.default()))


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        s.load_schedule(tmp_path / "missing")
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="cannot read"):
        s.load_schedule(tmp_path / "bad")
    (tmp_path / "order").write_text("without ad\n")
    with pytest.raises(UsageError, match="order: the pass 'ad' is needed"):
        s.load_schedule(tmp_path / "order")
    for wrong in (3, None):
        with pytest.raises(UsageError, match="is needed, not"):
            s.parse(wrong)


def test_alternatives_are_picked_in_the_order_of_the_text() -> None:
    text = 'after fuse: alternatives(fold, normalize(unit))\nnest "a.fut:1": alternatives(jam(2), no rows)\n'
    assert "apply fold\n" in str(s.parse(text)) and "jam(2)" in str(s.parse(text))
    other = str(s.parse_schedule(text, picks=Picks([1, 1])))
    assert "apply normalize(unit)\n" in other and 'nest "a.fut:1": no rows' in other
