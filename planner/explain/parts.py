"""What binds one part of a step, with the arithmetic: operations, bytes, collectives, and what hides behind what."""

from planner.explain.collectives import collective_text, waits_for
from planner.explain.explanation import Explanation, Subject
from planner.explain.shapes import matmuls
from planner.plan.catalogue import flops_text
from planner.plan.schema import Roofline
from planner.plan.units import bytes_text, digits, percent_text, seconds_text

RESOURCES = {"compute": "compute", "hbm": "HBM", "ici": "ICI", "fixed": "fixed overhead"}
COUNTS = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))


def operations_text(flops: float) -> str:
    """A number of operations: `150 GFLOP`."""
    scale, unit = next(((s, u) for s, u in COUNTS if flops >= s * 0.9995), (1.0, "FLOP"))
    return f"{digits(flops / scale)} {unit}"


def part_flops(subject: Subject, part: Roofline) -> float:
    """Operations of a part: its compute time at the chip's rate."""
    machine = subject.machine
    return part.compute_s * machine.chip.flops_per_s(machine.sizes.compute_dtype) * machine.stack.mxu_efficiency


def part_bytes(subject: Subject, part: Roofline) -> float:
    """Bytes that a part moves to or from HBM: its HBM time at the chip's rate."""
    return part.hbm_s * subject.machine.chip.hbm_bytes_per_s * subject.machine.stack.hbm_efficiency


def explain_part(subject: Subject, part: Roofline) -> Explanation:
    """One part of a step."""
    step_s = subject.phase(part.address.split(".")[0]).step_s
    share = percent_text(part.total_s / step_s if step_s else 0.0)
    opening = f"{seconds_text(part.total_s)}, {share} of the step, bound by {RESOURCES[part.binds]}"
    if not part.total_s:
        opening = "nothing: this chip's software stack is charged no time here"
    details = [compute_sentence(subject, part), hbm_sentence(subject, part), ici_sentence(subject, part)]
    fixed = f"fixed: {seconds_text(part.fixed_s)} to start a step" if part.fixed_s else ""
    numbers = {
        "seconds": part.total_s,
        "flops": part_flops(subject, part),
        "hbm_bytes": part_bytes(subject, part),
        "ici_seconds": part.ici_s,
        "fixed_seconds": part.fixed_s,
    }
    return Explanation(part.address, (opening, *filter(None, [*details, fixed])), numbers)


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
    return f"compute: {count}{source} at {rate} in {dtype}: {seconds_text(part.compute_s)}{hidden}"


def attention_source(subject: Subject, part: Roofline) -> str:
    """What attention over the cache works on, on one chip."""
    plan, sizes, ways = subject.plan, subject.machine.sizes, subject.machine.ways
    heads = sizes.heads(subject.rules.generate, ways)
    if part.address == "generate.attention.kv_cache":
        workload = subject.spec.workload
        context = workload.prompt_tokens.mean + workload.output_tokens.mean / 2
        sequences = plan.generate.batch / ways(subject.rules.generate.batch)
        shard = "1 KV head" if heads.kv_local == 1 else f"{heads.kv_local} KV heads"
        return f" ({sequences:g} sequences, mean context {context:g} tokens, {shard} on a chip)"
    q_heads = heads.q_padded // ways(subject.rules.prefill.q_heads)
    return f" (scores over {plan.prefill.tokens} tokens, masked or not, {q_heads} query heads on a chip)"


def hbm_sentence(subject: Subject, part: Roofline) -> str:
    """Bytes, rate, time."""
    if not part.hbm_s:
        return ""
    rate = f"{bytes_text(subject.machine.chip.hbm_bytes_per_s)}/s"
    size, hidden = bytes_text(part_bytes(subject, part)), hidden_text(subject, part, "hbm")
    return f"HBM: {size} read and written at {rate}: {seconds_text(part.hbm_s)}{hidden}"


def ici_sentence(subject: Subject, part: Roofline) -> str:
    """The collectives a part waits for."""
    found = [each for each in subject.collectives() if waits_for(each) == part.address]
    if not found:
        return ""
    listed = "; ".join(f"{each.address}, {collective_text(each)}" for each in found)
    exposed = "" if subject.machine.stack.overlap == "everything" else ", not hidden"
    return f"ICI: {listed}{exposed}"
