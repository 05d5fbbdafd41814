"""Test blocks that Futhark's own tests have."""

from __future__ import annotations

import pytest

from tests.support.cli_helpers import Runner


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def test_integers_beyond_their_type_wrap_in_blocks_and_files(futad):
    futad.file("more.in", "[65536u16, 65600u16, -32769u16, -1u16]")
    futad.file(
        "wraps.fut",
        "-- ==\n"
        "-- input { [0u16, 64u16, 32767u16, 65535u16] } output { [0i8, 64i8, 32767i8, -1i8] }\n"
        "-- input @more.in output { [0, 64, 32767, 255] }\n"
        "-- script input { [65536u16] } output { [256i8] }\n"
        "entry main (xs: []u16): []i8 = map i8.u16 xs\n",
    )
    done = futad("test", "wraps.fut", "-b", "interp")
    assert (done.code, done.out) == (0, "3 passed, 0 failed, 0 skipped\n")
    done = futad("run", "wraps.fut", "-b", "interp", stdin="[1u16, 65536u16]")
    assert done.code == 1 and "65536 does not fit u16" in done.err


def test_several_properties_in_a_block(futad):
    futad.file(
        "both.fut",
        "-- ==\n-- property: holds\n-- property: fails\n"
        "#[prop] entry holds (x: i32): bool = x == x\n#[prop] entry fails (x: i32): bool = x != x\n",
    )
    done = futad("test", "both.fut", "-b", "interp")
    assert done.code == 1 and "property fails" in done.out and done.out.endswith("1 passed, 1 failed, 0 skipped\n")
