"""SmolLM2-135M served on this machine's CPU: batch sizes, chunked prefill, steps per dispatch and the prefix cache on
and off, beside Hugging Face transformers' continuous batching on the same weights, float32, in one run.

    python benchmarks/serving.py [--torch-python PYTHON] [--quick]

PYTHON is that of an environment with torch, transformers, accelerate and gguf. Every row serves the same requests in a
process of its own, without HTTP, all programs compiled before: `chat` 64 at once with prompts of 8 to 64 tokens,
`together` the same with 32 to 224, `apart` 48 of these that come at random, `alike` 48 that come at random and whose
prompts begin with the same 256 tokens. Answers have 64 to 128 tokens. A batch makes answers cheaper but not the reading
of prompts: the longer prompts are, the less it gains. Run it when nothing else does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from loads import Arrival, Served, drawn, write
from plans_on_cpu import SPEC, model_file

from planner.plan.make import make_plan
from planner.render import write_package
from planner.spec import load_spec

HERE = Path(__file__).parent
RATE = 1.2  # requests a second, about half of what one device serves at batch 16
LOADS = {
    "chat": lambda share: drawn(64 // share, prompts=(8, 64)),
    "together": lambda share: drawn(64 // share),
    "apart": lambda share: drawn(48 // share, RATE),
    "alike": lambda share: drawn(48 // share, RATE, shared=256, prompts=(16, 64)),
}


@dataclass(frozen=True)
class Row:
    """One way to serve a load."""

    load: str
    name: str
    batch: int = 16
    chunk: str = "64"
    options: tuple[str, ...] = ()
    theirs: bool = False


ROWS = (
    *(Row("chat", f"batch {batch}", batch) for batch in (1, 4, 16)),
    Row("chat", "transformers, batch 16", theirs=True),
    *(Row("together", f"batch {batch}", batch) for batch in (1, 4, 16)),
    Row("together", "batch 16, whole prompts", chunk="off"),
    Row("together", "batch 16, 4 steps per dispatch", options=("--steps", "4")),
    Row("together", "transformers, batch 16", theirs=True),
    Row("apart", "batch 16"),
    Row("apart", "batch 16, whole prompts", chunk="off"),
    Row("apart", "transformers, batch 16", theirs=True),
    Row("alike", "batch 16"),
    Row("alike", "batch 16, no prefix cache", options=("--no-prefix-cache",)),
    Row("alike", "transformers, batch 16", theirs=True),
)


def command_of(row: Row, requests: Path, folder: Path, python: str | None) -> list[str]:
    """What serves a row's requests."""
    if row.theirs:
        assert python
        return [python, str(HERE / "serve_transformers.py"), str(model_file()), str(requests), str(row.batch)]
    package = folder / f"package_{row.batch}_{row.chunk}"
    if not package.exists():
        sizes = ("hardware.slice=1x1", f"workload.concurrency={row.batch}", f"serving.chunked_prefill={row.chunk}")
        write_package(make_plan(load_spec(SPEC, sizes)), package)
    script = str(HERE / "serve_package.py")
    return [sys.executable, script, str(package), str(model_file()), str(requests), *row.options]


def served(command: list[str]) -> list[Served]:
    """What became of the requests."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return [Served(**each) for each in json.loads(done.stdout.splitlines()[-1])]


def line(row: Row, done: Sequence[Served]) -> str:
    """One line of the table: tokens a second from the first arrival to the last end, and percentiles 50, 95, 99."""
    seconds = max(each.ended_s for each in done) - min(each.arrived_s for each in done)
    text = f"{row.load:<10}{row.name:<32}{sum(each.tokens for each in done) / seconds:>9.1f}"
    for times in ([each.ttft_s for each in done], [each.tpot_s for each in done]):
        cuts = quantiles(times, n=100, method="inclusive")
        text += "".join(f"{cuts[at] * 1e3:>9.0f}" for at in (49, 94, 98))
    return text


def lines(rows: Sequence[Row], python: str | None, share: int) -> Iterator[str]:
    """The table."""
    times = [f"{name} {of}" for name in ("TTFT", "TPOT") for of in ("p50", "p95", "p99")]
    yield f"{'load':<10}{'served by':<32}{'tokens/s':>9}" + "".join(f"{each:>9}" for each in times) + "  (ms)"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrivals: dict[str, list[Arrival]] = {load: make(share) for load, make in LOADS.items()}
        for row in rows:
            requests = write(arrivals[row.load], folder / f"{row.load}.json")
            yield line(row, served(command_of(row, requests, folder, python)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch-python", metavar="PYTHON", help="with torch, transformers, accelerate and gguf")
    parser.add_argument("--quick", action="store_true", help="a quarter of the requests")
    parser.add_argument("--only", default="", metavar="TEXT", help="the rows with this text in load and name")
    options = parser.parse_args(arguments)
    python = options.torch_python
    rows = [row for row in ROWS if options.only in f"{row.load} {row.name}" and (python or not row.theirs)]
    for text in lines(rows, python, 4 if options.quick else 1):
        print(text, flush=True)


if __name__ == "__main__":
    main()
