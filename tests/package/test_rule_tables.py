"""Whatever the rule tables say: the numbers of the plain model, by the planned collectives and no others."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from planner.problem.chunks import steps_of
from planner.verify.compare import compare
from planner.verify.hlo import parse
from planner.verify.transfers import transfers
from tests.package import reference
from tests.package.cases import CASES, COPIED, GENERATE_CASES, INT8, INT8_CACHES, POOLS, READS
from tests.package.drawn import drawn_case
from tests.package.harness import REQUESTS, load, replay
from tests.render.plans import (
    Case,
    generate_collectives,
    insertion_collectives,
    prefill_collectives,
    reading_mesh,
)

BUCKET = 32
DRAWN = (*range(6), 31)
"""Strategies drawn from all that may be planned, beside those that are written down; in 31 XLA joins two reductions."""
MORE_DRAWN = range(6, 31)


@dataclass(frozen=True)
class Run:
    """A package's candidates after each prompt and after every generate step; and the text of its compiled steps."""

    case: Case
    bucket: int
    logprobs: tuple[np.ndarray, ...]
    read: reference.Read
    prefill: str
    generate: str
    inserting: str
    """The program that brings a prompt to where it is inserted: insert, or the hand-over to another slice."""


EVERY = (*CASES, *GENERATE_CASES, *INT8, *INT8_CACHES, *READS, *COPIED, *POOLS, *map(drawn_case, DRAWN))
MORE = [pytest.param(drawn_case(seed), marks=pytest.mark.exhaustive) for seed in MORE_DRAWN]


@pytest.fixture(scope="module", params=(*EVERY, *MORE), ids=lambda case: case.name)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    case = replace(request.param, context=48, buckets=(BUCKET,))
    package = load(case, tmp_path_factory.mktemp(case.name))
    checkpoint, config = package.module("checkpoint"), package.module("config").MODEL
    random = checkpoint.RandomCheckpoint(config)
    weights = package.module("loading").load_weights(random, config, package.mesh)
    played = replay(package, config, weights)
    read = int8_reader(random.read) if case.weights == "int8" else random.read
    programs = played.engine._programs
    generate = programs["generate_special", 0]  # log probabilities cost no collective
    if case.generate.rows:  # what a replay brings together at the end is more than the likeliest tokens of each row
        generate = package.module("generate").lower_generate(config, played.engine.mesh).compile()
    bucket = config.buckets[0]
    brings = programs.get(("hand_over", bucket)) or programs["insert", bucket]
    texts = (programs["prefill", bucket].as_text(), generate.as_text(), brings.as_text())
    return Run(case, bucket, played.logprobs, read, *texts)


def int8_reader(read: reference.Read) -> reference.Read:
    """Matrices rounded to 8 bits with a scale per output."""

    def rounded(part: str, layer: int | None) -> np.ndarray:
        matrix = read(part, layer)
        if matrix.ndim == 1:
            return matrix
        scale = np.abs(matrix).max(axis=1, keepdims=True) / 127
        return np.round(matrix / scale) * scale

    return rounded


def test_both_phases_agree_with_the_plain_model(run: Run) -> None:
    for request, logprobs in zip(REQUESTS, run.logprobs, strict=True):
        length = len(request.prompt)
        cached_from = length if run.case.kv_cache == "int8" else None
        expected = reference.logprobs(run.case.model, run.read, request.tokens, cached_from)[length - 1 :]
        for found, wanted in zip(logprobs, expected, strict=True):
            held = ~np.isnan(found)
            assert held.sum() == 63
            np.testing.assert_allclose(found[held], wanted[held], atol=2e-4, rtol=2e-4)
            assert wanted[held].min() >= wanted[~held].max() - 1e-3


def test_compiled_steps_hold_the_planned_collectives_only(run: Run) -> None:
    case, reading = run.case, reading_mesh(run.case)
    stages = reading[case.stages] if case.stages else 1
    wanted = (
        (run.generate, case.mesh, 1, generate_collectives(case)),
        (run.prefill, reading, stages * steps_of(run.bucket, case.chunk).number, prefill_collectives(case, run.bucket)),
        (run.inserting, reading, stages * case.prompts, insertion_collectives(case, run.bucket)),
    )
    for text, mesh, runs, planned in wanted:
        found = [replace(each, count=each.count * runs) for each in transfers(parse(text), mesh)]
        rows = compare(planned, found)
        assert [row for row in rows if row.status != "matched"] == []
