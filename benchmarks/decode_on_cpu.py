"""Decode of SmolLM2-135M on this machine's CPU: the rendered package beside Hugging Face transformers on CPU torch.

    python benchmarks/decode_on_cpu.py --torch-python PYTHON

PYTHON is that of an environment with torch, transformers, accelerate and gguf; without it only the package is measured.
Both read the same weights from one file, as float32, and hold a prompt of the same length in every sequence; a row is
the median step of each, measured in turns in one run.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from plans_on_cpu import SPEC, STEP, model_file

from planner.plan.make import make_plan
from planner.render import write_package
from planner.spec import load_spec

BATCHES = (1, 8, 32)
TURNS = 3
PROMPT_TOKENS = 128
TRANSFORMERS = """
import statistics, sys, time
import torch
from transformers import AutoModelForCausalLM

folder, name, length, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
with torch.inference_mode():
    made = model(torch.ones((batch, length), dtype=torch.long), use_cache=True, logits_to_keep=1)
    times = []
    for _ in range(21):
        begin = time.perf_counter()
        token = made.logits[:, -1:].argmax(-1)
        made = model(token, past_key_values=made.past_key_values, use_cache=True)
        times.append(time.perf_counter() - begin)
print(statistics.median(times[1:]) * 1e3)
"""


def ours_ms(batch: int, folder: Path) -> float:
    """The median step of the package on one device with all `batch` slots in use, in ms."""
    command = [sys.executable, "-m", f"package_{batch}", "bench", "--weights", str(model_file())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return next(float(ms) for phase, ms, _ in STEP.findall(done.stdout) if phase == "generate")


def transformers_ms(batch: int, python: str) -> float:
    """The median step of transformers for `batch` sequences, in ms."""
    weights = model_file()
    command = [python, "-c", TRANSFORMERS, str(weights.parent), weights.name, str(PROMPT_TOKENS), str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"transformers did not run in {python}:\n{done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def row(batch: int, folder: Path, python: str | None) -> str:
    """One line of the table: both in turns, so that what else the machine does meets both."""
    overrides = ("hardware.slice=1x1", f"workload.concurrency={batch}")
    write_package(make_plan(load_spec(SPEC, overrides)), folder / f"package_{batch}")
    turns = [(ours_ms(batch, folder), transformers_ms(batch, python) if python else None) for _ in range(TURNS)]
    ours = median(each for each, _ in turns)
    text = f"{batch:>5}{ours:>10.1f} ms{batch / ours * 1e3:>10.0f}"
    theirs = [each for _, each in turns if each is not None]
    if theirs:
        ms = median(theirs)
        text += f"{ms:>10.1f} ms{batch / ms * 1e3:>10.0f}{ms / ours:>8.2f}x"
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch-python", metavar="PYTHON", help="with torch, transformers, accelerate and gguf")
    python = parser.parse_args(arguments).torch_python
    print(f"SmolLM2-135M, float32, one device, {PROMPT_TOKENS} tokens of prompt; step and tokens/s, median of {TURNS}")
    print(
        f"{'batch':>5}{'package':>13}{'tokens/s':>10}"
        + (f"{'transformers':>13}{'tokens/s':>10}{'ahead':>9}" if python else "")
    )
    with tempfile.TemporaryDirectory() as folder:
        for batch in BATCHES:
            print(row(batch, Path(folder), python), flush=True)


if __name__ == "__main__":
    main()
