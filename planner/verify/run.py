"""A package executed on virtual CPU devices, beside its model on one device: what may follow prompts, then 16 tokens.

Both compute in float32 from the same random weights, so that layouts may change numbers by rounding only. What a plan
quantises stays quantised.
"""

from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from importlib import import_module
from io import StringIO
from types import ModuleType
from typing import Any, Literal

from planner.plan.records import Mesh
from planner.plan.schema import GenerateRules, Plan, PrefillRules
from planner.verify.build import Progress
from planner.verify.devices import cpu_devices
from planner.verify.package import imported_package

Size = Literal["tiny", "full"]

STEPS = 16
PROMPTS = 3
TOLD = 8
"""Likeliest tokens whose log probabilities are compared after each prompt."""
TOLERANCE = 1e-3
SAME = (
    *("layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab"),
    *("batch", "context", "page_tokens", "buckets"),
)
"""Sizes that do not depend on how many chips there are, and below those that do, beside what they are on one."""
STORED = {"d_ff_stored": "d_ff", "q_heads_stored": "q_heads", "kv_heads_stored": "kv_heads", "vocab_stored": "vocab"}


@dataclass(frozen=True)
class Ran:
    """What the chips of a plan computed against one device: the largest difference of a log probability, and others."""

    size: Size
    devices: int
    prompts: int
    steps: int
    logprobs_within: float
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """What one package computed: for each prompt its likeliest tokens with log probabilities, and those generated."""

    best: list[list[int]]
    logprobs: list[list[float]]
    tokens: list[list[int]]


def run_plan(plan: Plan, progress: Progress, size: Size = "tiny") -> Ran:
    """Execute the package of a plan, and of its model on one device, and compare."""
    devices = cpu_devices(len(plan.mesh.chips) + (len(plan.pool.mesh.chips) if plan.pool else 0))
    with imported_package(in_float32(plan)) as package, progress(f"running {size} on {len(devices)} CPU devices"):
        config = package.TINY if size == "tiny" else package.MODEL
        found = numbers_of(package, config, devices)
    with imported_package(on_one_device(in_float32(plan))) as package, progress(f"running {size} on one CPU device"):
        same = {name: getattr(config, name) for name in SAME}
        whole = {stored: getattr(config, real) for stored, real in STORED.items()}
        wanted = numbers_of(package, replace(package.TINY, **same, **whole), devices[:1])
    pairs = zip(found.logprobs, wanted.logprobs, strict=True)
    apart = max(abs(one - other) for left, right in pairs for one, other in zip(left, right, strict=True))
    return Ran(size, len(devices), len(found.logprobs), STEPS, apart, tuple(differences(found, wanted, apart)))


def differences(found: Numbers, wanted: Numbers, apart: float) -> Iterator[str]:
    """What the chips computed otherwise than one device, a sentence each."""
    if apart > TOLERANCE:
        yield f"run: log probabilities after a prompt differ by {apart:.2g} from those of one device"
    for index, (one, other) in enumerate(zip(found.best, wanted.best, strict=True)):
        if one != other:
            yield f"run: the best tokens after prompt {index} are {one}, on one device {other}"
    for index, (one, other) in enumerate(zip(found.tokens, wanted.tokens, strict=True)):
        if one != other:
            step = next(step for step, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
            yield f"run: step {step} after prompt {index} makes token {one[step]}, on one device {other[step]}"


def in_float32(plan: Plan) -> Plan:
    """The plan for CPU devices, with float32 in place of bf16."""
    model: Any = plan.spec["model"]
    wide = {
        part: {**model[part], "dtype": told}
        for part in ("weights", "activations", "kv_cache")
        if (told := "float32" if part not in model or model[part]["dtype"] == "bf16" else model[part]["dtype"])
    }
    dtypes = plan.dtypes and plan.dtypes.model_copy(
        update={name: "float32" for name, told in plan.dtypes if told == "bf16"}
    )
    return plan.model_copy(update={"chip": "cpu", "spec": {**plan.spec, "model": {**model, **wide}}, "dtypes": dtypes})


def on_one_device(plan: Plan) -> Plan:
    """The plan's model and service on one device, where nothing is cut."""
    whole: dict[str, Any] = {"chunk": None, "copies": None, "stages": None, "stored": None, "prompts": 1}
    prefill = plan.prefill.model_copy(update={"rules": PrefillRules(), "collectives": (), **whole})
    generate = plan.generate.model_copy(update={"rules": GenerateRules(), "collectives": ()})
    mesh, name = Mesh(axes=(), chips=((0, 0),)), f"{plan.name}_alone"
    return plan.model_copy(
        update={"name": name, "mesh": mesh, "slice": "1x1", "pool": None, "prefill": prefill, "generate": generate}
    )


def numbers_of(package: ModuleType, config: Any, devices: Sequence[Any]) -> Numbers:
    """What a package computes for prompts of several lengths, with random weights."""
    module = {name: import_module(f"{package.__name__}.{name}") for name in ("checkpoint", "loading")}
    with redirect_stderr(StringIO()):
        make_mesh = getattr(package, "make_meshes", package.make_mesh)  # one for each phase, where each has its slices
        mesh = make_mesh(devices)
        weights = module["loading"].load_weights(module["checkpoint"].RandomCheckpoint(config), config, mesh)
        prompts = prompts_of(config)
        engine, telling = package.Engine(weights, config, mesh), package.Sampling(logprobs=True)
        told = [engine.prefill(prompt, telling).chosen for prompt in prompts]
        return Numbers(
            best=[each.top_tokens[:TOLD].tolist() for each in told],
            logprobs=[each.top_logprobs[:TOLD].tolist() for each in told],
            tokens=generated(engine, prompts),
        )


def prompts_of(config: Any) -> list[list[int]]:
    """Prompts of several lengths that leave room for the steps."""
    longest = min(config.buckets[-1], config.context - STEPS - 2)
    count = min(PROMPTS, config.batch)
    lengths = [max(1, longest * (index + 1) // count - index) for index in range(count)]
    return [[(3 + 7 * place + index) % config.vocab for place in range(length)] for index, length in enumerate(lengths)]


def generated(engine: Any, prompts: Sequence[list[int]]) -> list[list[int]]:
    """The tokens that follow each prompt, all in slots beside each other."""
    made: list[list[int]] = []
    for slot, prompt in enumerate(prompts):
        read = engine.prefill(prompt)
        made.append([read.first])
        engine.insert(read, slot)
    for _ in range(STEPS):
        step = engine.generate()
        for slot, tokens in enumerate(made):
            tokens.append(step[slot].id)
    return made
