"""SmolLM2-135M served over HTTP on this machine's CPU for a long time at 80 % load: does memory stay flat?

    python benchmarks/soak.py [--minutes 30] [--every 60]

First closed-loop clients find what the server can do; then mixed requests come at random at 80 % of that: chats and
completions, streams and whole answers, greedy and drawn, with penalties, log probabilities, JSON schemas, shared
prefixes, and clients that go away. A line tells what the server holds; at the end all slots and pages must be free, and
the growth of memory over the last two thirds is told.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx2 as httpx
import openai
from plans_on_cpu import SPEC, model_file

from planner.plan.make import make_plan
from planner.render import write_package
from planner.spec import load_spec

SLOTS = 16
LOAD = 0.8
PROBE_SECONDS = 60
HOST_PAGES = 100  # so few that they are in use long before the last two thirds
SIZES = ("hardware.slice=1x1", f"workload.concurrency={SLOTS}", "serving.chunked_prefill=64")
SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "why": {"type": "string", "maxLength": 40}},
}
PREFIX = "You are a patient teacher who explains one thing at a time and gives an example for each. " * 6


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """(address, process id) of a server that is ready."""
    write_package(make_plan(load_spec(SPEC, SIZES)), folder / "package")
    command = [sys.executable, "-m", "package", "serve", "--weights", str(model_file()), "--devices", "cpu"]
    command += ["--port", "0", "--host-pages", str(HOST_PAGES), "--model-name", "smollm2"]
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stderr=errors)
    try:
        while "listening at " not in log.read_text():
            time.sleep(0.2)
        address = log.read_text().split("listening at ")[1].split()[0]
        while httpx.get(f"{address}/ready").status_code != 200:
            time.sleep(0.5)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(60)


def resident_mb(pid: int) -> float:
    """Memory of a process, in MB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@dataclass
class Clients:
    """Clients of one server, and what became of their requests."""

    client: openai.AsyncOpenAI
    random: Random
    ends: Counter[str] = field(default_factory=Counter)
    tokens: int = 0

    async def ask(self) -> None:
        """One request of some kind."""
        fields = self.fields()
        if leaves := self.random.random() < 0.05:
            fields["stream"] = True
        try:
            answer = await self.client.chat.completions.create(**fields)
            if not fields.get("stream"):
                self.note(answer.choices[0].finish_reason, answer.usage.completion_tokens)
                return
            count, finish = 0, None
            async with answer:
                async for chunk in answer:
                    count, finish = count + 1, chunk.choices[0].finish_reason
                    if leaves and count > 3:
                        break
            self.note("left" if finish is None else finish, count)
        except openai.APIStatusError as error:
            self.note(f"status {error.status_code}", 0)

    def note(self, end: str, tokens: int) -> None:
        """Count an answer."""
        self.ends[end] += 1
        self.tokens += tokens

    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        random = self.random
        words = " ".join(f"word{random.randrange(1000)}" for _ in range(random.randint(4, 40)))
        prompt = PREFIX * (random.random() < 0.4) + words
        fields: dict[str, Any] = {"model": "smollm2", "messages": [{"role": "user", "content": prompt}]}
        fields |= {"max_tokens": random.randint(16, 96), "stream": random.random() < 0.5}
        fields |= {"temperature": random.choice((0, 0.8)), "seed": random.randrange(1000)}
        kind = random.random()
        if kind < 0.1:
            fields |= {"frequency_penalty": 0.5, "presence_penalty": 0.2}
        elif kind < 0.2:
            fields |= {"logprobs": True, "top_logprobs": 5}
        elif kind < 0.25:
            fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "mood", "schema": SCHEMA}}
        return fields


async def capacity(clients: Clients) -> float:
    """Requests a second that the server answers when there is always one more."""
    end, done = time.monotonic() + PROBE_SECONDS, 0

    async def loop() -> None:
        nonlocal done
        while time.monotonic() < end:
            await clients.ask()
            done += time.monotonic() < end

    await asyncio.gather(*(loop() for _ in range(SLOTS)))
    return done / PROBE_SECONDS


async def soak(address: str, pid: int, seconds: float, every: float) -> None:
    """Keep the server at work, and print what it holds."""
    client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=600)
    clients = Clients(client, Random(3))
    most = await capacity(clients)
    print(f"{most:.2f} requests/s when there is always one more; now {LOAD * most:.2f}/s at random", flush=True)
    begin, asked, told, sizes = time.monotonic(), set(), 0.0, []
    clients.ends.clear()
    while (passed := time.monotonic() - begin) < seconds:
        if passed >= told:
            sizes.append((passed, resident_mb(pid)))
            print(line(address, clients, *sizes[-1]), flush=True)
            told += every
        asked.add(task := asyncio.create_task(clients.ask()))
        task.add_done_callback(asked.discard)
        await asyncio.sleep(clients.random.expovariate(LOAD * most))
    await asyncio.gather(*asked)
    await asyncio.sleep(2)
    sizes.append((time.monotonic() - begin, resident_mb(pid)))
    print(line(address, clients, *sizes[-1]))
    late = [size for at, size in sizes if at >= seconds / 3]
    print(f"memory over the last two thirds: {min(late):.0f} to {max(late):.0f} MB; ends: {dict(clients.ends)}")
    await client.close()


def line(address: str, clients: Clients, passed: float, size: float) -> str:
    """What the server holds at this moment."""
    status = httpx.get(f"{address}/status").json()
    held = f"{status['running']:>3} running{status['waiting']:>4} waiting"
    used = status["pages"] - status["free_pages"] - status["cached_pages"]
    pages = f"{used:>4} of sequences{status['cached_pages']:>5} cached{status['cached_host_pages']:>5} in host memory"
    return f"{passed / 60:>6.1f} min{size:>8.0f} MB{sum(clients.ends.values()):>7} answers {held}; pages: {pages}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=60, metavar="SECONDS", help="between two lines")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (address, pid):
        asyncio.run(soak(address, pid, options.minutes * 60, options.every))


if __name__ == "__main__":
    main()
