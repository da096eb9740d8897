"""Plans written from rule tables, for tests of rendered packages: no solver, no prices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from cost_models.torus import MeshAxis as TorusAxis
from planner.plan.records import Hbm, Mesh, MeshAxis, Pool
from planner.plan.schema import (
    Collective,
    Copies,
    Generate,
    GenerateRules,
    Plan,
    Prefill,
    PrefillRules,
    Proof,
    Service,
    Stages,
    Strategy,
)
from planner.problem import planned
from planner.problem.pipeline import Pipeline
from planner.problem.planned import INSERTION
from planner.problem.primitives import Program
from planner.problem.rules import GenerateRules as GenerateTable
from planner.problem.rules import PrefillRules as PrefillTable
from planner.problem.rules import Rules, Ways
from planner.problem.sizes import Sizes

SMOLLM2: dict[str, Any] = {
    "family": "llama",
    "layers": 30,
    "d_model": 576,
    "d_ff": 1536,
    "q_heads": 9,
    "kv_heads": 3,
    "head_dim": 64,
    "vocab": 49152,
    "max_positions": 8192,
    "tied_embeddings": True,
    "norm_eps": 1e-5,
    "rope": {"theta": 100000.0, "scaling": None},
}
LLAMA_70B: dict[str, Any] = {
    "family": "llama",
    "layers": 80,
    "d_model": 8192,
    "d_ff": 28672,
    "q_heads": 64,
    "kv_heads": 8,
    "head_dim": 128,
    "vocab": 128256,
    "max_positions": 8192,
    "tied_embeddings": False,
    "norm_eps": 1e-5,
    "rope": {
        "theta": 500000.0,
        "scaling": {
            "type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_positions": 8192,
        },
    },
}
TINY: dict[str, Any] = {
    "family": "llama",
    "layers": 2,
    "d_model": 64,
    "d_ff": 96,
    "q_heads": 8,
    "kv_heads": 4,
    "head_dim": 16,
    "vocab": 256,
    "max_positions": 8192,
    "tied_embeddings": False,
    "norm_eps": 1e-5,
    "rope": {"theta": 10000.0, "scaling": None},
}
NO_HBM = Hbm(**dict.fromkeys(Hbm.model_fields, 0))
BYTES = {"float32": 4, "bf16": 2, "int8": 1}


@dataclass(frozen=True)
class Case:
    """A plan in short: the model, the mesh axes (name -> size), the two tables, and the service's sizes."""

    name: str
    mesh: Mapping[str, int]
    generate: GenerateRules
    prefill: PrefillRules
    model: Mapping[str, Any] = field(default_factory=lambda: SMOLLM2)
    weights: str = "float32"
    activations: str = "float32"
    kv_cache: str = "float32"
    chip: str = "cpu"
    slice: str = "2x4"
    batch: int = 8
    context: int = 256
    page_tokens: int = 16
    buckets: tuple[int, ...] = (32, 64, 128)
    smallest_shard: int = 1
    prompts: int = 1
    chunk: int | None = None
    copies: Copies | None = None
    pool: Mapping[str, int] | None = None
    stored: GenerateRules | None = None
    stages: str | None = None

    def ways(self, axes: Sequence[str]) -> int:
        """Chips along `axes`."""
        return prod(self.mesh[axis] for axis in axes)


def make_plan(case: Case) -> Plan:
    """The plan of `case`, with its planned collectives and made-up prices."""
    strategy = Strategy(attention="?", kv_cache="?", mlp="?", vocab="?")
    model = {
        **case.model,
        "weights": {"dtype": case.weights},
        "activations": {"dtype": case.activations},
        "kv_cache": {"dtype": case.kv_cache, "page_tokens": case.page_tokens},
    }
    common: dict[str, Any] = {"strategy": strategy, "step_s": 0.0125, "binds": "hbm", "parts": ()}
    prefill = Prefill(
        rules=case.prefill,
        tokens=case.buckets[-1],
        prompts=case.prompts,
        chunk=case.chunk,
        copies=case.copies,
        stored=case.stored,
        stages=None if case.stages is None else Stages(axis=case.stages, count=reading_mesh(case)[case.stages]),
        buckets=case.buckets,
        collectives=read_collectives(case, case.buckets[-1]),
        **common,
    )
    generate = Generate(
        rules=case.generate,
        batch=case.batch,
        context=case.context,
        page_tokens=case.page_tokens,
        collectives=generate_collectives(case),
        **common,
    )
    return Plan(
        format_version="1.0",
        name=case.name,
        spec={"version": 1, "name": case.name, "model": model},
        chip=case.chip,
        slice=case.slice,
        mesh=_mesh(case.mesh),
        prefill=prefill,
        generate=generate,
        padding=(),
        hbm=NO_HBM,
        pool=None if case.pool is None else Pool(slice=case.slice, mesh=_mesh(case.pool), padding=(), hbm=NO_HBM),
        service=Service(ttft_s=0.1, tpot_s=0.01, tokens_per_s=100, chip_seconds_per_million_tokens=80000),
        proof=Proof(status="OPTIMAL", objective="cost", value=1, bound=1, candidates=1, solved=1),
        accuracy="made up",
    )


def reading_mesh(case: Case) -> Mapping[str, int]:
    """The mesh axes of the slice that reads prompts."""
    return case.mesh if case.pool is None else case.pool


def _mesh(sizes: Mapping[str, int]) -> Mesh:
    """Mesh axes named x, y or, as pieces of one, y0 (major) and y1 (minor); chips in C order over them."""
    names = list(sizes)
    torus = [name[0] for name in names]
    strides = [prod(sizes[later] for later in names[i + 1 :] if later[0] == name[0]) for i, name in enumerate(names)]
    axes = tuple(
        MeshAxis(name=name, size=sizes[name], torus_axis=name[0], stride=stride)
        for name, stride in zip(names, strides, strict=True)
    )
    chips = []
    for place in product(*(range(size) for size in sizes.values())):
        at = dict.fromkeys(sorted(set(torus)), 0)
        for index, axis, stride in zip(place, torus, strides, strict=True):
            at[axis] += index * stride
        chips.append(tuple(at.values()))
    return Mesh(axes=axes, chips=tuple(chips))


def program_of(case: Case, mesh: Mapping[str, int] | None = None) -> Program:
    """What the planner lists collectives from; on the mesh of generate unless another is given."""
    model = case.model
    names = ("layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab")
    dtypes = BYTES[case.weights], 4 if case.weights == "int8" else 0, BYTES[case.activations], BYTES[case.kv_cache]
    sizes = Sizes(*(model[name] for name in names), model["tied_embeddings"], *dtypes, case.activations)
    ways = Ways(dict(case.mesh if mesh is None else mesh))
    return Program(sizes, ways, case.smallest_shard, apart=case.pool is not None)


def _rules(case: Case, stored: GenerateRules | None = None) -> Rules:
    copies = {str(block): GenerateTable(**dict(stored)) for block, stored in (case.copies or {}).items()}
    return Rules(GenerateTable(**dict(stored or case.generate)), PrefillTable(**dict(case.prefill)), copies)


def generate_collectives(case: Case) -> tuple[Collective, ...]:
    """What the planner says the generate step exchanges."""
    return _listed(planned.generate_step(_rules(case).generate, case.batch, program_of(case)))


def prefill_collectives(case: Case, tokens: int) -> tuple[Collective, ...]:
    """What the planner says the prefill step of a bucket exchanges."""
    return tuple(each for each in read_collectives(case, tokens) if not each.address.startswith(INSERTION))


def insertion_collectives(case: Case, tokens: int) -> tuple[Collective, ...]:
    """What it says is exchanged to bring all prompts of a prefill to where they are inserted."""
    return tuple(each for each in read_collectives(case, tokens) if each.address.startswith(INSERTION))


def read_collectives(case: Case, tokens: int) -> tuple[Collective, ...]:
    """Both together, as a plan lists them."""
    mesh = reading_mesh(case)
    pipeline = None if case.stages is None else Pipeline(TorusAxis(case.stages, mesh[case.stages], case.stages[0]))
    program = program_of(case, {**mesh, **({} if pipeline is None else {pipeline.axis.name: 1})})
    rules = _rules(case, case.stored)
    found = planned.prefill_step(rules, tokens, program, case.prompts, case.chunk)
    if pipeline is not None:
        found = pipeline.collectives(found, pipeline.permute(rules.prefill, tokens, program, case.prompts))
    return _listed(found)


def _listed(found: Iterable[planned.Collective]) -> tuple[Collective, ...]:
    return tuple(
        Collective(address=c.address, kind=c.kind, axes=c.axes, bytes=c.bytes, count=c.repeats, seconds=0.0)
        for c in found
    )
