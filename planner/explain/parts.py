"""What binds one part of a step, with the arithmetic: operations, bytes, collectives, and what hides behind what."""

from planner.explain.collectives import collective_text, waits_for
from planner.explain.explanation import Explanation, Subject
from planner.explain.shapes import matmuls
from planner.plan.catalogue import flops_text
from planner.plan.schema import Roofline
from planner.plan.units import RESOURCES, bytes_text, digits, percent_text, seconds_text
from planner.problem.chunks import steps_of

COUNTS = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))


def operations_text(flops: float) -> str:
    """A number of operations: `150 GFLOP`."""
    scale, unit = next(((s, u) for s, u in COUNTS if flops >= s * 0.9995), (1.0, "FLOP"))
    return f"{digits(flops / scale)} {unit}"


def part_flops(subject: Subject, part: Roofline) -> float:
    """Operations of a part."""
    machine = subject.machine
    return subject.at_peak[part.address].compute_s * machine.chip.flops_per_s(machine.sizes.compute_dtype)


def part_bytes(subject: Subject, part: Roofline) -> float:
    """Bytes that a part moves to or from HBM."""
    return subject.at_peak[part.address].hbm_s * subject.machine.chip.hbm_bytes_per_s


def explain_part(subject: Subject, part: Roofline) -> Explanation:
    """One part of a step."""
    step_s = subject.phase(part.address.split(".")[0]).step_s
    share = percent_text(part.total_s / step_s if step_s else 0.0)
    opening = f"{seconds_text(part.total_s)}, {share} of the step, bound by {RESOURCES[part.binds]}"
    if not part.total_s:
        opening = "nothing: this chip's software stack is charged no time here"
    details = [compute_sentence(subject, part), hbm_sentence(subject, part), ici_sentence(subject, part)]
    details.append(fixed_sentence(subject, part))
    numbers = {
        "seconds": part.total_s,
        "flops": part_flops(subject, part),
        "hbm_bytes": part_bytes(subject, part),
        "ici_seconds": part.ici_s,
        "fixed_seconds": part.fixed_s,
    }
    return Explanation(part.address, (opening, *filter(None, details)), numbers)


def hidden_text(subject: Subject, part: Roofline, resource: str) -> str:
    """Whether the smaller of compute and HBM hides behind the larger one."""
    if subject.machine.stack.overlap == "nothing":
        return ""
    seconds, other = (part.compute_s, "hbm") if resource == "compute" else (part.hbm_s, "compute")
    larger = part.hbm_s if resource == "compute" else part.compute_s
    hides = seconds < larger or (seconds == larger and resource == "hbm")
    return f", hidden behind {RESOURCES[other]}" if hides else ""


def compute_sentence(subject: Subject, part: Roofline) -> str:
    """Operations, rate, time, and the matmuls they come from."""
    if not part.compute_s:
        return ""
    dtype = subject.machine.sizes.compute_dtype
    rate = flops_text(subject.machine.chip.flops_per_s(dtype))
    found = matmuls(subject, part.address)
    source = f" ({' + '.join(matmul.text() for matmul in found)})" if found else attention_source(subject, part)
    count = operations_text(part_flops(subject, part))
    hidden = hidden_text(subject, part, "compute")
    lost = lost_text(part.compute_s, subject.at_peak[part.address].compute_s)
    return f"compute: {count}{source} at {rate} in {dtype}{lost}: {seconds_text(part.compute_s)}{hidden}"


def lost_text(seconds: float, at_peak_s: float) -> str:
    """What the software reaches of a peak rate, where that is not all of it."""
    reached = percent_text(at_peak_s / seconds)
    return "" if at_peak_s > 0.999 * seconds else f" ({reached} of it reached)"


def fixed_sentence(subject: Subject, part: Roofline) -> str:
    """Seconds that no byte and no operation explains, and what they come from."""
    if not part.fixed_s:
        return ""
    stack, layers = subject.machine.stack, subject.machine.sizes.layers
    if part.address.endswith(".kv_cache"):
        return f"fixed: {seconds_text(part.fixed_s)}, {seconds_text(stack.sequence_layer_s)} a sequence and layer"
    by_layer = f", {layers} layers at {seconds_text(stack.layer_s)}" if stack.layer_s else ""
    if part.address == "generate.draft":
        return f"fixed: the drafts of every sequence, made before the step verifies them: {seconds_text(part.fixed_s)}"
    prefill = subject.plan.prefill
    chunks = steps_of(prefill.tokens, prefill.chunk).number if part.address.startswith("prefill.") else 1
    times = f", {chunks} times" if chunks > 1 else ""
    return f"fixed: {seconds_text(stack.step_s)} to start a step{by_layer}{times}"


def attention_source(subject: Subject, part: Roofline) -> str:
    """What attention over the cache works on, on one chip."""
    plan, sizes, ways = subject.plan, subject.machine.sizes, subject.machine.ways
    if part.address == "generate.attention.kv_cache":
        heads = sizes.heads(subject.rules.generate, ways)
        workload = subject.spec.workload
        context = workload.prompt_tokens.mean + workload.output_tokens.mean / 2
        stored = subject.rules.generate
        sequences = plan.generate.batch / ways(stored.rows + stored.batch)
        context /= ways(stored.kv_tokens)
        shard = "1 KV head" if heads.kv_local == 1 else f"{heads.kv_local} KV heads"
        shard = "latents of every head" if sizes.latent else shard
        told = plan.generate.speculation
        asked = f" with {told.drafted_tokens + 1} queries each" if told else ""
        return f" ({sequences:g} sequences{asked}, mean context {context:g} tokens, {shard} on a chip)"
    q_heads = sizes.heads(subject.rules.read("attention"), ways).q_padded // ways(subject.rules.prefill.q_heads)
    masked = ", masked or not" if subject.machine.stack.masked_pairs == "visited" else ""
    prompts = "" if plan.prefill.prompts == 1 else f"{plan.prefill.prompts} prompts of "
    count, tokens = steps_of(plan.prefill.tokens, plan.prefill.chunk)
    by = f" by chunks of {tokens}" if count > 1 else ""
    return f" (scores over {prompts}{plan.prefill.tokens} tokens{by}{masked}, {q_heads} query heads on a chip)"


def hbm_sentence(subject: Subject, part: Roofline) -> str:
    """Bytes, rate, time."""
    if not part.hbm_s:
        return ""
    rate = f"{bytes_text(subject.machine.chip.hbm_bytes_per_s)}/s"
    size, hidden = bytes_text(part_bytes(subject, part)), hidden_text(subject, part, "hbm")
    lost = lost_text(part.hbm_s, subject.at_peak[part.address].hbm_s)
    return f"HBM: {size} read and written at {rate}{lost}: {seconds_text(part.hbm_s)}{hidden}"


def ici_sentence(subject: Subject, part: Roofline) -> str:
    """The collectives a part waits for."""
    found = [each for each in subject.collectives() if waits_for(each) == part.address]
    if not found:
        return ""
    listed = "; ".join(f"{each.address}, {collective_text(each)}" for each in found)
    whole_s = sum(each.seconds for each in found)
    hidden = percent_text(1 - part.ici_s / whole_s)
    return f"ICI: {listed}, {'not hidden' if part.ici_s > 0.999 * whole_s else f'{hidden} of it hidden by local work'}"
