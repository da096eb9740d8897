"""A package for GPUs of one NVLink domain: plain attention, and the numbers of the plain model on CPU devices."""

from pathlib import Path

import numpy as np

from planner.plan.make import make_plan
from planner.spec import spec_from_data
from tests.package import reference
from tests.package.harness import REQUESTS, load_plan, replay
from tests.render.plans import TINY


def test_a_plan_for_gpus_runs_as_any_other(tmp_path: Path) -> None:
    tokens = {"mean": 16, "p95": 32}
    dtypes = {part: {"dtype": "float32"} for part in ("weights", "activations")}
    data = {
        "version": 1,
        "name": "gpu",
        "model": {**TINY, **dtypes, "kv_cache": {"dtype": "float32", "page_tokens": 16}},
        "hardware": {"chip": "h100", "slices": ["8"]},
        "workload": {"prompt_tokens": tokens, "output_tokens": tokens, "concurrency": 8},
    }
    package = load_plan(make_plan(spec_from_data(data)), "gpu", tmp_path)
    assert package.module("devices").DEVICE_KINDS == ("H100",)
    assert not (tmp_path / package.name / "kernels.py").exists()
    config, checkpoint = package.module("config").MODEL, package.module("checkpoint")
    random = checkpoint.RandomCheckpoint(config)
    weights = package.module("loading").load_weights(random, config, package.mesh)
    played = replay(package, config, weights)
    for request, logprobs in zip(REQUESTS, played.logprobs, strict=True):
        expected = reference.logprobs(TINY, random.read, request.tokens)[len(request.prompt) - 1 :]
        for made, wanted in zip(logprobs, expected, strict=True):
            held = ~np.isnan(made)
            np.testing.assert_allclose(made[held], wanted[held], atol=2e-4, rtol=2e-4)
