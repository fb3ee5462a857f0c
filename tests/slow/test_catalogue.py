"""The catalogue verifies itself: every rule does what it claims, and needs what it requires."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cores import all_cores

from lastbit.change import Change
from lastbit.registry import load_rules

pytestmark = pytest.mark.slow


def _lastbit(*arguments: str, **options: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "lastbit", "rules", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, **options)  # type: ignore[call-overload]


def test_the_check_of_all_rules_passes() -> None:
    done = _lastbit("--check", "--format", "json")
    out, err = done.communicate(timeout=1200)
    found = json.loads(out)
    failed = {rule["code"]: rule["failures"] for rule in found["rules"] if rule["failures"]}
    assert failed == {}
    assert (done.returncode, err) == (0, "")
    assert [rule["code"] for rule in found["rules"]] == list(load_rules())
    for rule in found["rules"]:
        assert rule["verified"] == rule["claim"], rule["code"]
        assert rule["instances"] > rule["unknown"], rule["code"]
        assert set(rule["lost"]) <= set(rule["loses"]), rule["code"]
        assert rule["sizes"], rule["code"]
        assert all(need["needed"] and need["why"] for need in rule["requirements"]), rule["code"]
        changes = Change(rule["claim"]) > Change.BITWISE
        assert changes <= (rule["witness"] is not None), rule["code"]
        if rule["witness"]:
            assert rule["witness"]["before"] != rule["witness"]["after"], rule["code"]
    assert found["summary"]["rules"] >= 70


def test_an_interrupt_ends_the_check_and_its_processes() -> None:
    with all_cores():
        running = _lastbit("--check", start_new_session=True)
    time.sleep(6)  # the workers are at work
    children = _children(running.pid)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "lastbit: interrupted\n")
    assert children
    assert not [child for child in children if os.path.exists(f"/proc/{child}")]


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()
