"""What the TPU compiler makes of prefill in all its forms: the planned collectives, a kernel, and no copies."""

import os
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from planner.plan.schema import CopyRules
from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from planner.problem.chunks import steps_of
from planner.verify.compare import compare
from planner.verify.copies import copies
from planner.verify.hlo import parse
from planner.verify.transfers import transfers
from tests.package.cases import SPLIT
from tests.package.harness import load
from tests.package.test_tpu import topology
from tests.render.plans import LLAMA_70B, Case, prefill_collectives, reading_mesh

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
BUCKET = 512
SMALL = {**LLAMA_70B, "layers": 4, "d_model": 1024, "d_ff": 4096, "q_heads": 16, "vocab": 16384}
STORED = G(batch=("x",), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y"))
GATHERED = Case(
    "gathered",
    {"x": 2, "y": 4},
    STORED,
    P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    model=SMALL,
    weights="bf16",
    activations="bf16",
    kv_cache="bf16",
    chip="v5e",
    batch=16,
    context=1024,
    page_tokens=128,
    buckets=(BUCKET,),
    smallest_shard=8,
)
WHOLE = replace(GATHERED, prefill=P(q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y")))
SEQUENCE = P(tokens=("y", "x"), q_heads=("y", "x"), kv_heads=("y",), d_ff=("y", "x"), vocab=("x", "y"))
APART = replace(
    GATHERED,
    model={**SMALL, "layers": 16, "d_model": 2048, "d_ff": 8192},  # more than a chip brings into its VMEM whole
    pool=SPLIT,
    stored=G(q_heads=("y0", "y1"), kv_heads=("y0", "y1"), d_ff=("y0", "y1"), vocab=("y0",)),
    prefill=P(tokens=("y0",), q_heads=("y1",), kv_heads=("y1",), d_ff=("y1",), vocab=("y0",)),
    stages="x",
)
CASES = [
    GATHERED,
    replace(WHOLE, name="whole", prompts=4),
    replace(WHOLE, name="sequence_parallel", prefill=SEQUENCE),
    replace(GATHERED, name="prompts_apart", prompts=4),
    replace(GATHERED, name="chunks", chunk=256),
    replace(GATHERED, name="chunks_of_prompts", prompts=4, chunk=256, weights="int8"),
    replace(
        GATHERED,
        name="second_copies",
        copies={"attention": CopyRules(q_heads=("y",), kv_heads=("y",)), "mlp": CopyRules(d_ff=("y",))},
    ),
    replace(APART, name="stages", prompts=2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_prefill_has_the_planned_collectives_one_kernel_and_no_copies(case: Case, tmp_path: Path) -> None:
    package = load(case, tmp_path)
    sharding, config = package.module("sharding"), package.module("config").MODEL
    make_mesh = sharding.make_mesh if case.pool is None else sharding.make_prefill_mesh
    mesh = make_mesh(topology("v5e:2x4").devices)
    compiled = package.module("prefill").lower_prefill(config, mesh, BUCKET).compile()
    module, memory = parse(compiled.as_text()), compiled.memory_analysis()
    sizes = reading_mesh(case)
    runs = steps_of(BUCKET, case.chunk).number * (sizes[case.stages] if case.stages else 1)
    found = [replace(each, count=each.count * runs) for each in transfers(module, sizes)]
    rows = compare(prefill_collectives(case, BUCKET), found)
    assert [row for row in rows if row.status != "matched"] == []
    assert [copy for copy in copies(module, on_tpu=True) if copy.purpose is None] == []
    assert compiled.as_text().count('custom_call_target="tpu_custom_call"') == 1
    assert memory.temp_size_in_bytes < 100e6
    if case.chunk:
        kv = package.module("kv_cache").abstract_prefilled(config, mesh, BUCKET)
        assert memory.alias_size_in_bytes == 2 * prod(kv.sharding.shard_shape(kv.shape))
