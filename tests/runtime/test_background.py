"""Libraries that a process of its own compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from futad.runtime import background, cc
from tests.support.needs import needs_cc
from tests.support.paths import ROOT


@needs_cc
def test_jobs_are_done_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))
    wanted = [cc.library(f'#include "prelude.h"\nint f(void) {{ return {k}; }}') for k in (3, 4)]
    builds = background.Builds()
    builds.add(wanted[0], only_here=True)
    builds.add(wanted[1], yields=1)
    assert not any(w.done for w in wanted), "nothing before the end"
    builds.end()
    builds.wait()
    assert wanted[0].done
    builds.finish()
    assert wanted[1].done
    assert cc.build_library(wanted[1].source).f() == 4


def test_a_job_for_a_process_that_has_ended_is_left_out(tmp_path: Path) -> None:
    def job(waits: int | None) -> bytes:
        fields: dict[str, Any] = {"yields": 0, "waits": waits, "key": "0" * 64, "command": ["false"], "version": ""}
        return json.dumps(fields | {"options": [], "source": ""}).encode() + b"\n"

    def told(*jobs: bytes) -> bytes:
        env = os.environ | {"PYTHONPATH": str(ROOT), "FUTAD_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", background.START]
        return subprocess.run(command, input=b"".join(jobs), env=env, capture_output=True, check=True).stdout

    other = os.getppid()
    assert told(job(None), job(other), job(os.getpid())) == b"\n\n"
    assert told(job(other)) == b""
    assert told(job(None), background.END, job(None)) == b"\n", "what follows the end is no job"
