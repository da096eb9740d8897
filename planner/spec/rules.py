"""Rules that look across fields. Each yields what breaks it; its name in a diagnostic is the function's name.

A rule reads the spec as if all of it were valid. Where a field is invalid, the rules that need it are skipped.
"""

from collections.abc import Iterator
from math import isqrt

from planner.spec.finding import Finding, Rule
from planner.spec.hf_families import FAMILIES
from planner.spec.model import RopeScaling
from planner.spec.nearest import nearest
from planner.spec.pins import EXPERT_AXES, PINS, pin_choices, pin_problem
from planner.spec.schema import Spec, Tokens
from planner.spec.serving_rules import (
    chunks_of_a_fleet,
    fleet_below_slice,
    mesh_of_phases,
    rate_objective,
    speculation_pin,
    tail_without_rate,
)


def known_family(spec: Spec) -> Iterator[Finding]:
    """The architecture is one whose sizes mean what the model section says."""
    family = spec.model.family
    if family not in FAMILIES:
        close = nearest(family, FAMILIES)
        hint = f'did you mean "{close}"?' if close else f"known families: {', '.join(FAMILIES)}"
        yield Finding(("model", "family"), f'model family "{family}" is not known', hint)


def known_chip(spec: Spec) -> Iterator[Finding]:
    """The chip is in the catalogue."""
    from cost_models.chips import UnknownChip, chip

    try:
        chip(spec.hardware.chip)
    except UnknownChip as error:
        yield Finding(("hardware", "chip"), _sentence(error))


def known_stack(spec: Spec) -> Iterator[Finding]:
    """The software stack is in the catalogue."""
    from cost_models.stacks import step_stacks

    name, known = spec.hardware.stack, [each.name for each in step_stacks()]
    if name not in known:
        close = nearest(name, known)
        hint = f'did you mean "{close}"?' if close else f"known are {', '.join(known)}"
        yield Finding(("hardware", "stack"), f'no software stack called "{name}" prices a step', hint)


def slice_shape(spec: Spec) -> Iterator[Finding]:
    """Every slice is one that the chip is sold in."""
    from cost_models.chips import UnknownChip, chip
    from cost_models.torus import IllegalSlice, parse_slice

    try:
        accelerator = chip(spec.hardware.chip)
    except UnknownChip:
        return
    for index, shape in enumerate(spec.hardware.slices):
        try:
            parse_slice(accelerator, shape)
        except IllegalSlice as error:
            yield Finding(("hardware", "slices", index), _sentence(error))


def slice_repeated(spec: Spec) -> Iterator[Finding]:
    """No slice is listed twice."""
    slices = spec.hardware.slices
    for index, shape in enumerate(slices):
        if shape in slices[:index]:
            yield Finding(("hardware", "slices", index), f"slice {shape} is listed twice", "list it once")


def prompt_p95_below_mean(spec: Spec) -> Iterator[Finding]:
    """The 95th percentile of prompt lengths is not below their mean: lengths have a long upper tail."""
    yield from _p95_below_mean(spec.workload.prompt_tokens, "prompt_tokens")


def output_p95_below_mean(spec: Spec) -> Iterator[Finding]:
    """The 95th percentile of answer lengths is not below their mean: lengths have a long upper tail."""
    yield from _p95_below_mean(spec.workload.output_tokens, "output_tokens")


def _p95_below_mean(tokens: Tokens, key: str) -> Iterator[Finding]:
    if tokens.p95 < tokens.mean:
        message = f"p95 of {key} is {tokens.p95}, below its mean {tokens.mean}"
        yield Finding(("workload", key, "p95"), message, f"use {tokens.mean} or more")


def context_below_prompt(spec: Spec) -> Iterator[Finding]:
    """A sequence's context holds a p95 prompt and at least one token of the answer."""
    context, prompt = spec.workload.max_context, spec.workload.prompt_tokens.p95
    if context <= prompt:
        total = prompt + spec.workload.output_tokens.p95
        message = f"max_context {context} leaves no room for an answer after a p95 prompt of {prompt} tokens"
        yield Finding(("workload", "max_context"), message, f"{total} holds a p95 prompt and a p95 answer")


def context_above_model(spec: Spec) -> Iterator[Finding]:
    """A sequence's context is one the model was made for."""
    context, limit = spec.workload.max_context, spec.model.max_positions
    if context > limit:
        message = f"max_context is {context} tokens, but {spec.model.family} here was made for {limit}"
        yield Finding(("workload", "max_context"), message, f"use {limit} or less, or shorten the p95 lengths")


def kv_heads_divide(spec: Spec) -> Iterator[Finding]:
    """Query heads share key and value heads evenly."""
    q_heads, kv_heads = spec.model.q_heads, spec.model.kv_heads
    if q_heads % kv_heads:
        small = [d for d in range(1, isqrt(q_heads) + 1) if q_heads % d == 0]
        divisors = {*small, *(q_heads // d for d in small)}
        best = min(divisors, key=lambda d: (abs(d - kv_heads), d))
        message = f"{q_heads} q_heads cannot share {kv_heads} kv_heads evenly"
        yield Finding(("model", "kv_heads"), message, f"the nearest that can is {best}")


def rotary_head_dim(spec: Spec) -> Iterator[Finding]:
    """Rotary embedding turns pairs of numbers, so a head has an even width."""
    if spec.model.head_dim % 2:
        message = f"head_dim {spec.model.head_dim} is odd, and rotary embedding turns pairs of numbers"
        yield Finding(("model", "head_dim"), message, f"the nearest even width is {spec.model.head_dim + 1}")


def rope_scaling(spec: Spec) -> Iterator[Finding]:
    """A rope scaling has the numbers its type needs, and no others of another type."""
    scaling = spec.model.rope.scaling
    if scaling is None:
        return
    own = ("factor", "low_freq_factor", "high_freq_factor", "original_max_positions")
    needs = {"llama3": own, "linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor",)}.get(scaling.type, ())
    lacking = ", ".join(f'"{key}"' for key in needs if getattr(scaling, key) is None)
    if lacking:
        path = ("model", "rope", "scaling")
        yield Finding(path, f"rope scaling of type {scaling.type} needs {lacking}", on_key=True)
    yield from _frequency_factors(scaling)


def _frequency_factors(scaling: RopeScaling) -> Iterator[Finding]:
    for key in ("low_freq_factor", "high_freq_factor"):
        if scaling.type != "llama3" and getattr(scaling, key) is not None:
            message = f'"{key}" means nothing to rope scaling of type {scaling.type}'
            yield Finding(("model", "rope", "scaling", key), message, "leave it out", on_key=True)


def moe_experts(spec: Spec) -> Iterator[Finding]:
    """A token visits no more experts than there are, and some layers have experts."""
    moe = spec.model.moe
    if moe is not None and moe.experts_per_token > moe.experts:
        message = f"experts_per_token is {moe.experts_per_token}, but a layer has {moe.experts} experts"
        yield Finding(("model", "moe", "experts_per_token"), message, f"use {moe.experts} or less")
    if moe is not None and moe.dense_layers >= spec.model.layers:
        message = f"dense_layers is {moe.dense_layers} of {spec.model.layers} layers, which leaves none with experts"
        yield Finding(("model", "moe", "dense_layers"), message, "leave moe out of a dense model")


def pin(spec: Spec) -> Iterator[Finding]:
    """A pin is at an address that can be pinned, with a value of its kind."""
    for address, value in spec.pins.items():
        if address not in PINS:
            yield Finding(("pins", address), f'"{address}" cannot be pinned', pin_hint(address), on_key=True)
        elif lacking := lacking_block(address, spec):
            yield Finding(("pins", address), f"{address} cannot be pinned: the model has no {lacking}", on_key=True)
        elif problem := pin_problem(address, value):
            close = nearest(value, pin_choices(address)) if isinstance(value, str) else None
            yield Finding(("pins", address), problem, f'did you mean "{close}"?' if close else None)
        elif address == "prefill.copies" and (problem := copies_problem(spec, value)):
            yield Finding(("pins", address), problem)


def copies_problem(spec: Spec, value: object) -> str | None:
    """Why no plan of a spec can have second copies of the weights of these blocks, or None."""
    blocks = value if isinstance(value, tuple) else ()
    moe = spec.model.moe
    lacking = {"experts": moe is None, "mlp": moe is not None and not moe.dense_layers and not moe.shared_experts}
    missing = [block for block in blocks if lacking.get(block)]
    return f"prefill.copies names {missing[0]}, and the model has none" if missing else None


def lacking_block(address: str, spec: Spec) -> str | None:
    """The layers that a pin is about, where the model has none of them."""
    moe, name = spec.model.moe, address.rpartition(".")[2]
    if name in EXPERT_AXES and moe is None:
        return "experts"
    if name in ("mlp", "d_ff") and moe is not None and not moe.dense_layers and not moe.shared_experts:
        return "dense MLP; its experts are pinned by experts and expert_ff"
    return None


def pin_hint(address: str) -> str:
    """What to write instead of an address that cannot be pinned."""
    below = [known for known in PINS if known.startswith(f"{address}.")]
    if below:
        return f"write the whole address, such as {below[0]}"
    close = nearest(address, PINS)
    return f'did you mean "{close}"?' if close else f"what can be pinned: {', '.join(PINS)}"


def pinned_slice(spec: Spec) -> Iterator[Finding]:
    """A pinned slice is one of those that may be used."""
    value, slices = spec.pins.get("slice"), spec.hardware.slices
    if isinstance(value, str) and value not in slices:
        yield Finding(("pins", "slice"), f"pinned slice {value} is not among hardware.slices: {', '.join(slices)}")


RULES: tuple[Rule, ...] = (
    known_family,
    known_chip,
    known_stack,
    slice_shape,
    slice_repeated,
    prompt_p95_below_mean,
    output_p95_below_mean,
    context_below_prompt,
    context_above_model,
    kv_heads_divide,
    rotary_head_dim,
    rope_scaling,
    moe_experts,
    tail_without_rate,
    rate_objective,
    fleet_below_slice,
    chunks_of_a_fleet,
    pin,
    pinned_slice,
    speculation_pin,
    mesh_of_phases,
)


def _sentence(error: Exception) -> str:
    """The message of an exception, KeyError's quotes left out."""
    return str(error.args[0]) if error.args else str(error)
