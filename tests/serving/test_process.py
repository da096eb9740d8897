"""The server as a process of its own: start, SIGTERM with live streams, and faults."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.package.harness import Package

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import argparse, sys, time
from importlib import import_module
from tests.serving.machine import VOCAB, PieceTokenizer, TalkingRunner

name, kind, *arguments = sys.argv[1:]
serve, scheduler = import_module(name + ".serve"), import_module(name + ".scheduler")
command = argparse.ArgumentParser()
serve.add_arguments(command)
command.add_argument("--coordinator")
given = command.parse_args(["--port", "0", *arguments])

def build():
    if kind == "broken":
        raise ValueError("no such weights")
    if kind == "slow":
        time.sleep(600)
    runner = TalkingRunner(pages_per_group=400, context=512, pages_per_slot=128, longest_prompt=511)
    runner.pause_s = 600 if kind == "stuck" else 0.01
    return scheduler.Scheduler(runner, serve.limits_of(given))

serve.serve(given, build, PieceTokenizer(), VOCAB)
"""
Start = Callable[..., "Process"]


class Process:
    """A server that runs; its port, and what it says."""

    def __init__(self, package: Package, kind: str, *arguments: str) -> None:
        folder = str(Path(sys.modules[package.name].__file__ or "").parents[1])
        variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", "JAX_PLATFORMS": "cpu"}
        command = (sys.executable, "-c", SCRIPT, package.name, kind, *arguments)
        self.child = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self.port = 0
        self._heard = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._heard.wait(120)

    def _read(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.lines.append(line.rstrip())
            if found := re.match(r"listening at http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                self._heard.set()
        self._heard.set()

    def ask(self, path: str, body: Any = None) -> tuple[int, dict[str, str], str]:
        """(status, headers, text) of a request."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, dict(response.getheaders()), text

    def wait_ready(self) -> None:
        while self.ask("/ready")[0] != 200:
            time.sleep(0.01)

    def end(self) -> int:
        """The exit code, once the process has ended."""
        code = self.child.wait(120)
        self._reader.join()
        return code


@pytest.fixture
def start(package: Package) -> Iterator[Start]:
    """Starts servers; none is left at the end."""
    made: list[Process] = []

    def begin(kind: str, *arguments: str) -> Process:
        made.append(Process(package, kind, *arguments))
        return made[-1]

    yield begin
    for each in made:
        if each.child.poll() is None:
            each.child.kill()
        each.end()
        assert each.child.stderr is not None
        each.child.stderr.close()


def stream(process: Process, tokens: int) -> str:
    return process.ask("/v1/completions", {"prompt": "a", "max_tokens": tokens, "stream": True})[2]


def stop_with_live_streams(process: Process, tokens: int) -> tuple[list[str], tuple[int, dict[str, str], str]]:
    """Send SIGTERM while 4 streams live; what they were sent, and the answer to a request that came meanwhile."""
    process.wait_ready()
    with ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(stream, process, tokens) for _ in range(4)]
        while '"running": 4' not in json.dumps(json.loads(process.ask("/status")[2])):
            time.sleep(0.005)
        process.child.send_signal(signal.SIGTERM)
        while process.ask("/ready")[0] != 503:
            time.sleep(0.005)
        assert process.ask("/health")[0] == 200
        late = process.ask("/v1/completions", {"prompt": "a"})
        return [each.result() for each in streams], late


# E3: vllm-project/vllm#24885, #36666, #43208; kserve/kserve#5496; llm-d/llm-d#1525
def test_e3_live_streams_finish_after_sigterm(start: Start):
    process = start("fake")
    texts, late = stop_with_live_streams(process, 200)
    assert late[0] == 503
    assert int(late[1]["retry-after"]) > 0
    assert json.loads(late[2])["error"]["code"] == "unavailable"
    for text in texts:
        assert text.endswith("data: [DONE]\n\n")
        assert '"finish_reason": "length"' in text
    assert process.end() == 0
    requests = [json.loads(line) for line in process.lines if line.startswith("{")]
    assert [(each["tokens"], each["finish"]) for each in requests if each["event"] == "request"] == [
        (200, "length")
    ] * 4
    assert not any("Traceback" in line for line in process.lines)


def test_e3_streams_that_take_too_long_end_with_an_error(start: Start):
    process = start("fake", "--drain-seconds", "1")
    texts, _ = stop_with_live_streams(process, 500)
    for text in texts:
        assert "[DONE]" not in text
        last = json.loads(text.split("\n\n")[-2].removeprefix("data: "))
        assert last["error"]["message"] == "the server stops before the answer is complete"
    assert process.end() == 0


def test_a_second_signal_ends_at_once(start: Start):
    process = start("stuck", "--drain-seconds", "600")
    process.wait_ready()
    connection = HTTPConnection("127.0.0.1", process.port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 500, "stream": True}))
    connection.getresponse()
    process.child.send_signal(signal.SIGTERM)
    while process.ask("/ready")[0] != 503:
        time.sleep(0.005)
    process.child.send_signal(signal.SIGTERM)
    assert process.end() == 0
    connection.close()


def test_the_server_listens_while_the_engine_is_made_and_is_not_ready(start: Start):
    process = start("slow", "--model-name", "mine", "--api-key", "k")
    assert process.ask("/health")[0] == 200
    assert process.ask("/ready")[0] == 503
    assert json.loads(process.ask("/status")[2])["state"] == "starting"
    assert process.ask("/v1/completions", {"prompt": "a"})[0] == 401
    process.child.send_signal(signal.SIGTERM)
    assert process.end() == 0


def test_an_engine_that_cannot_be_made_ends_the_process(start: Start):
    process = start("broken")
    assert process.end() == 1
    assert any("no such weights" in line for line in process.lines)


def test_a_run_on_several_hosts_is_refused(start: Start):
    process = start("fake", "--coordinator", "auto")
    assert process.end() == 1
    assert any("the server runs on one host" in line for line in process.lines)
