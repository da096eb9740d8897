"""Sampling on the chips: penalties, least probabilities, draws and log probabilities, against plain numpy."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.package import reference
from tests.package.cases import CASES, GENERATE_CASES
from tests.package.harness import Package, load

NAMES = ("heads_by_batch", "rows_apart_in_each_block")
PROMPT = [5, 9, 9, 200, 17, 42, 9, 61]
SETTINGS: dict[str, dict[str, float]] = {
    "greedy": {},
    "repetition": {"repetition": 1.7},
    "presence": {"presence": 1.5},
    "frequency": {"frequency": 0.9},
    "all": {"repetition": 1.2, "presence": 0.4, "frequency": 0.3},
    "rewards": {"repetition": 0.8, "presence": -0.6, "frequency": -0.2},
}
STEPS = 10
EVERY = {case.name: case for case in (*CASES, *GENERATE_CASES)}


@pytest.fixture(scope="module", params=NAMES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, Any, Any, Any]:
    """(package, engine, model, checkpoint) of a plan."""
    case = replace(EVERY[request.param], context=40, buckets=(16,))
    package = load(case, tmp_path_factory.mktemp(case.name))
    checkpoint, config = package.module("checkpoint"), package.module("config").MODEL
    random = checkpoint.RandomCheckpoint(config)
    weights = package.module("loading").load_weights(random, config, package.mesh)
    return package, package.module("engine").Engine(weights, config, package.mesh), case.model, random


def penalised(logits: np.ndarray, read: list[int], chosen: list[int], given: dict[str, float]) -> np.ndarray:
    """The penalties of other servers, token by token."""
    found = logits.astype(np.float64).copy()
    for token in {*read, *chosen}:
        factor = given.get("repetition", 1.0)
        found[token] = found[token] / factor if found[token] > 0 else found[token] * factor
    for token, times in Counter(chosen).items():
        found[token] -= given.get("presence", 0.0) + times * given.get("frequency", 0.0)
    return found


def run(engine: Any, sampling: Any, slot: int = 2) -> tuple[list[int], list[float], list[dict[int, float]]]:
    """(tokens, their log probabilities, those of the likeliest) that follow the prompt."""
    read = engine.prefill(PROMPT, sampling)
    engine.insert(read, slot)
    rows = [read.chosen]
    for _ in range(STEPS):
        made = engine.step()
        names = ("tokens", "logprobs", "top_tokens", "top_logprobs")
        rows.append(replace(made, **{name: np.asarray(getattr(made, name))[slot] for name in names}))
    engine.release(slot)
    told = [dict(zip(row.top_tokens.tolist(), row.top_logprobs.tolist(), strict=True)) for row in rows]
    return [int(row.tokens) for row in rows], [float(row.logprobs) for row in rows], told


@pytest.mark.parametrize("name", SETTINGS)
def test_penalties_and_log_probabilities_are_those_of_the_formulas(served: Any, name: str) -> None:
    package, engine, model, random = served
    tokens, logprobs, told = run(engine, package.module("sampling").Sampling(logprobs=True, **SETTINGS[name]))
    plain = reference.logits(model, random.read, [*PROMPT, *tokens])[len(PROMPT) - 1 : -1]
    for step, logits in enumerate(plain):
        wanted = reference.normalised(penalised(logits, PROMPT, tokens[:step], SETTINGS[name]))
        assert wanted[tokens[step]] == pytest.approx(wanted.max(), abs=1e-4)
        assert logprobs[step] == pytest.approx(wanted.max(), abs=5e-4)
        assert len(told[step]) == 20
        assert sorted(told[step].values(), reverse=True) == pytest.approx(np.sort(wanted)[::-1][:20], abs=5e-4)
        for token, value in told[step].items():
            assert value == pytest.approx(wanted[token], abs=5e-4)


def test_a_neighbour_and_what_a_slot_held_before_change_nothing(served: Any) -> None:
    package, engine, *_ = served
    sampling = package.module("sampling").Sampling
    alone = run(engine, sampling(repetition=1.3, frequency=0.5))[0]
    engine.insert(engine.prefill([1, 2, 3], sampling(presence=2.0, temperature=0.7, seed=4)), 1)
    engine.insert(engine.prefill([200, 61]), 2)
    engine.step()
    engine.release(2)
    assert run(engine, sampling(repetition=1.3, frequency=0.5))[0] == alone
    engine.release(1)


@pytest.mark.parametrize("name", ["one_device", *NAMES])
def test_no_step_sorts_a_whole_vocabulary(tmp_path: Path, name: str) -> None:
    case = EVERY[name]
    package = load(replace(case, model={**case.model, "vocab": 4096}), tmp_path)
    config, lower = package.module("config").MODEL, package.module("generate").lower_generate
    for special in (False, True):
        text = lower(config, package.mesh, special=special).compile().as_text()
        assert 'custom_call_target="TopK"' in text
        sorts = [line.partition(" sort(")[0] for line in text.splitlines() if " sort(" in line]
        wide = [int(size) for line in sorts for size in re.findall(r",(\d+)\]", line)]
        assert all(size <= 8 * 63 for size in wide)  # the candidates of 8 chips; each holds 512 tokens at least


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return load(EVERY["one_device"], tmp_path_factory.mktemp("single"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_draws_are_among_the_tokens_that_the_settings_allow(single: Package, data: st.DataObject) -> None:
    sampling = single.module("sampling")
    logits = np.array(data.draw(st.lists(st.floats(-8, 8, width=32), min_size=8, max_size=90)), np.float32)
    chosen = {
        "temperature": data.draw(st.sampled_from([0.3, 1.0, 2.5])),
        "top_k": data.draw(st.integers(0, 12)),
        "top_p": data.draw(st.sampled_from([0.1, 0.6, 0.95, 1.0])),
        "min_p": data.draw(st.sampled_from([0.0, 0.05, 0.5])),
    }
    count = 40
    choice = sampling.Sampling(*(jnp.full(count, value) for value in vars(sampling.Sampling(**chosen)).values()))
    choice = replace(choice, seed=jnp.arange(count, dtype=jnp.uint32))
    wide = np.full(90, -np.inf, np.float32)  # one size, so that nothing is compiled for each example
    wide[: logits.size] = logits
    found = sampling.candidates(jnp.tile(wide, (count, 1)), jnp.bool_(True))
    drawn = {int(token) for token in sampling.choose(found, choice, jnp.arange(count)).tokens}
    assert drawn <= allowed(logits, **chosen)


def allowed(logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float) -> set[int]:
    """Tokens that may be drawn, ties and rounding at the edges included."""
    best = np.sort(logits)[::-1][:63]
    wide = np.exp((best - best[0]) / temperature)
    shares = wide / wide.sum()
    before = np.cumsum(shares) - shares
    kept = (
        (before < top_p + 1e-5) & (shares >= min_p * shares[0] - 1e-6) & (np.arange(best.size) < (top_k or best.size))
    )
    kept[0] = True
    return set(np.flatnonzero(logits >= best[kept].min()).tolist())
