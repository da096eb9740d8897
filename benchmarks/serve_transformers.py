"""Serve the requests of a file with transformers' continuous batching, and print what became of each as JSON.

    python serve_transformers.py WEIGHTS.gguf REQUESTS BATCH

Run by `serving.py`, with the Python of an environment that has torch, transformers, accelerate and gguf. A few requests
are served before anything is timed.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from loads import Arrival, Served, drawn, read
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig


def manager_of(weights: Path, batch: int) -> Any:
    """A started manager that has as many requests in a batch as the package has slots."""
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    greedy = GenerationConfig(do_sample=False, eos_token_id=-1, max_new_tokens=128)
    settings = ContinuousBatchingConfig(
        page_size=16, num_blocks=512, max_requests_per_batch=batch, max_batch_tokens=512
    )
    manager = model.init_continuous_batching(generation_config=greedy, continuous_batching_config=settings)
    manager.start()
    return manager


def served(manager: Any, arrivals: list[Arrival], mark: str) -> list[Served]:
    """Serve all requests, each at its time."""
    begin, done = time.perf_counter(), {}
    for nth, arrival in enumerate(arrivals):
        while (wait := begin + arrival.at_s - time.perf_counter()) > 0:
            collect(manager, done, begin, wait)
        options = {"max_new_tokens": arrival.tokens, "record_timestamps": True, "eos_token_id": -1}
        manager.add_request(arrival.prompt, request_id=f"{mark}{nth}", **options)
    while len(done) < len(arrivals):
        collect(manager, done, begin, 1)
    return [done[f"{mark}{nth}"] for nth in range(len(arrivals))]


def collect(manager: Any, done: dict[str, Served], begin: float, seconds: float) -> None:
    """Wait so long for a request that ends."""
    result = manager.get_result(timeout=seconds)
    if result is not None and result.is_finished():
        assert result.error is None, result.error
        times = [each - begin for each in result.timestamps]
        done[result.request_id] = Served(result.created_time - begin, times[0], times[-1], len(times))


def main() -> None:
    """Serve."""
    weights, requests, batch = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    manager = manager_of(weights, batch)
    served(manager, drawn(4, seed=1), "warm")
    done = served(manager, read(requests), "r")
    manager.stop(block=True)
    print(json.dumps([asdict(each) for each in done]))


if __name__ == "__main__":
    main()
