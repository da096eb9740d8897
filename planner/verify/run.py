"""A package executed on virtual CPU devices, beside the same model on one device: logits of prompts, then 16 tokens.

Both compute in float32 from the same random weights, so that layouts may change numbers by rounding only. What a plan
quantises stays quantised.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
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
LOGITS = 8
"""Best logits that are compared after each prompt."""
TOLERANCE = 1e-3
SAME = (
    *("layers", "d_model", "d_ff", "q_heads", "kv_heads", "head_dim", "vocab"),
    *("batch", "context", "page_tokens", "buckets"),
)
"""Sizes that do not depend on how many chips there are, and below those that do, beside what they are on one."""
STORED = {"d_ff_stored": "d_ff", "q_heads_stored": "q_heads", "kv_heads_stored": "kv_heads", "vocab_stored": "vocab"}


@dataclass(frozen=True)
class Ran:
    """What the chips of a plan computed against one device: the largest difference of a logit, and what differs."""

    size: Size
    devices: int
    prompts: int
    steps: int
    logits_within: float
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """What one package computed: for each prompt its best tokens and their logits, and the tokens generated after."""

    best: list[list[int]]
    logits: list[list[float]]
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
    pairs = zip(found.logits, wanted.logits, strict=True)
    apart = max(abs(one - other) for left, right in pairs for one, other in zip(left, right, strict=True))
    return Ran(size, len(devices), len(found.logits), STEPS, apart, tuple(differences(found, wanted, apart)))


def differences(found: Numbers, wanted: Numbers, apart: float) -> Iterator[str]:
    """What the chips computed otherwise than one device, a sentence each."""
    if apart > TOLERANCE:
        yield f"run: logits after a prompt differ by {apart:.2g} from those of one device"
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
    module = {name: import_module(f"{package.__name__}.{name}") for name in ("checkpoint", "loading", "sampling")}
    with redirect_stderr(StringIO()):
        make_mesh = getattr(package, "make_meshes", package.make_mesh)  # one for each phase, where each has its slices
        mesh = make_mesh(devices)
        weights = module["loading"].load_weights(module["checkpoint"].RandomCheckpoint(config), config, mesh)
        prompts = prompts_of(config)
        with choosing(module["sampling"], told_instead):
            engine = package.Engine(weights, config, mesh)
            told = [list(told_of(package, engine, prompt)) for prompt in prompts]
        return Numbers(
            best=[[best for best, _ in each] for each in told],
            logits=[[logit for _, logit in each] for each in told],
            tokens=generated(package.Engine(weights, config, mesh), prompts),
        )


def prompts_of(config: Any) -> list[list[int]]:
    """Prompts of several lengths that leave room for the steps."""
    longest = min(config.buckets[-1], config.context - STEPS - 2)
    count = min(PROMPTS, config.batch)
    lengths = [max(1, longest * (index + 1) // count - index) for index in range(count)]
    return [[(3 + 7 * place + index) % config.vocab for place in range(length)] for index, length in enumerate(lengths)]


def told_instead(best: Any, ids: Any, sampling: Any, positions: Any) -> Any:
    """In place of a choice: the id of candidate number `top_k`, or with no temperature the bits of its logit."""
    import jax.numpy as jnp
    from jax import lax

    place = sampling.top_k[:, None]
    logits = lax.bitcast_convert_type(jnp.take_along_axis(best, place, axis=1).astype(jnp.float32), jnp.int32)
    return jnp.where(sampling.temperature > 0, jnp.take_along_axis(ids, place, axis=1)[:, 0], logits[:, 0])


def told_of(package: ModuleType, engine: Any, prompt: list[int]) -> Iterator[tuple[int, float]]:
    """(token, logit) of the best candidates after a prompt."""
    import numpy as np

    for place in range(LOGITS):
        best = engine.prefill(prompt, package.Sampling(temperature=1.0, top_k=place)).first
        bits = engine.prefill(prompt, package.Sampling(temperature=0.0, top_k=place)).first
        yield best, float(np.int32(bits).view(np.float32))


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


@contextmanager
def choosing(sampling: Any, how: Any) -> Iterator[None]:
    """A package that chooses tokens in another way for a while."""
    before, sampling.choose = sampling.choose, how
    try:
        yield
    finally:
        sampling.choose = before
