"""A plan as tables a person can read: per phase rules, times, what binds and the runner-up; then memory and proof."""

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.plan.kv_layout import kv_layout_text
from planner.plan.records import Fleet, Hbm, Mesh
from planner.plan.schema import CopyRules, Generate, Near, Plan, Prefill, Proof, RunnerUp, Service
from planner.plan.units import RESOURCES, bytes_text, dearer_text, percent_text, seconds_text
from planner.problem.chunks import steps_of

RULE_MEANING = {
    "tokens": "prompt tokens",
    "rows": "sequences of the residual stream",
    "batch": "sequences in the KV cache",
    "kv_tokens": "tokens of the KV cache",
    "d_model": "residual stream, weight rows",
    "q_heads": "query heads, projections",
    "kv_heads": "KV heads, KV cache",
    "d_ff": "MLP hidden",
    "vocab": "embedding and logits",
    "expert_ff": "hidden columns of each expert",
    "experts": "whole experts",
}
PARTS = ("compute", "hbm", "ici", "fixed")


def show_plan(plan: Plan, console: Console) -> None:
    """Print a plan."""
    console.print(headline(plan))
    console.print(phase_view(plan.prefill, plan.at("prefill").mesh))
    console.print(phase_view(plan.generate, plan.mesh))
    if plan.pool is not None:
        console.print(memory_table(plan.pool.hbm, "HBM per chip that reads prompts"))
        console.print(memory_table(plan.hbm, "HBM per chip that generates"))
    else:
        console.print(memory_table(plan.hbm))
    for there in (plan.at("prefill"), plan) if plan.pool else (plan,):
        if there.padding:
            console.print(padding_table(there))
    if plan.fleet is not None:
        console.print(fleet_text(plan, plan.fleet))
    console.print(service_text(plan.service))
    console.print(proof_text(plan))


def headline(plan: Plan) -> Text:
    """What the plan is for: model, slice, mesh."""
    if plan.pool is not None and plan.fleet is not None:
        there, slices = plan.at("prefill"), (plan.fleet.prefill_slices, plan.fleet.slices)
        where = f"{slices[0]} x {slice_text(there)} for prefill, {slices[1]} x {slice_text(plan)} for generate"
    else:
        where = f"{f'{plan.fleet.slices} x ' if plan.fleet else ''}{slice_text(plan)}"
    stored = "" if plan.dtypes is None else f", {plan.dtypes.weights} weights, {plan.dtypes.kv_cache} KV cache"
    return Text.assemble((plan.name, "bold"), f" on {plan.chip} {where}{stored}")


def slice_text(plan: Plan) -> str:
    """A slice and its mesh."""
    axes = ", ".join(f"{axis.name}={axis.size}" + (" ring" if axis.wraps else "") for axis in plan.mesh.axes)
    return f"{plan.slice} (mesh {axes})"


def fleet_text(plan: Plan, fleet: Fleet) -> str:
    """How many slices serve, how busy they are, and the tails."""
    numbers = f"{fleet.slices} slices" if fleet.slices != 1 else "1 slice"
    if fleet.prefill_slices is not None:
        numbers = f"{fleet.prefill_slices} for prefill and {fleet.slices} for generate"
    told = [
        f"fleet: {fleet.mode}, {numbers}, {fleet.chips} chips, {fleet.requests_per_s:.4g} requests/s; slots "
        f"{percent_text(fleet.slot_utilization)} taken, prefill {percent_text(fleet.prefill_utilization)} busy"
    ]
    if fleet.transfer is not None:
        moved = f"{bytes_text(fleet.transfer.bytes)} in {seconds_text(fleet.transfer.seconds)}"
        told.append(f"hand-over of a prompt: {moved} over {fleet.transfer.link.upper()}")
    if fleet.tails is not None:
        ttft, tpot = seconds_text(fleet.tails.ttft_p95_s), seconds_text(fleet.tails.tpot_p95_s)
        told.append(f"95 % of requests (estimate): TTFT within {ttft}, TPOT within {tpot}")
    return "\n".join(told)


def phase_view(phase: Prefill | Generate, mesh: Mesh) -> RenderableType:
    """One phase: title, rule table, predicted times, runner-up."""
    if isinstance(phase, Prefill):
        kept = [f"  reads {text}" for text in copy_texts(phase)]
    else:
        kept = [] if phase.kv_layout is None else [f"  KV cache of a chip: {kv_layout_text(phase.kv_layout)}"]
    return Group(
        "",
        phase_title(phase),
        rule_table(phase, mesh),
        *kept,
        time_table(phase),
        runner_up_text(phase.runner_up, phase),
    )


def phase_title(phase: Prefill | Generate) -> Text:
    """The phase's name, its load, its step time and what binds it."""
    if isinstance(phase, Prefill):
        name, load = "prefill", prompts_text(phase)
    else:
        name, load = "generate", f"{phase.batch} sequences, context up to {phase.context}{drafts_text(phase)}"
    return Text.assemble(
        (name, "bold"), f": {load}: {seconds_text(phase.step_s)} a step, bound by {RESOURCES[phase.binds]}"
    )


def prompts_text(prefill: Prefill) -> str:
    """What one prefill reads."""
    if prefill.stages is not None:
        alone = prompts_text(prefill.model_copy(update={"stages": None}))
        return f"{alone}, layers in {prefill.stages.count} pipeline stages on {prefill.stages.axis}"
    count, tokens = steps_of(prefill.tokens, prefill.chunk)
    chunks = f", in {count} chunks of {tokens}" if count > 1 else ""
    if prefill.chunk and count == 1:
        chunks = f", longer ones in chunks of {prefill.chunk}"
    if prefill.prompts == 1:
        return f"one prompt of {prefill.tokens} tokens{chunks}"
    return f"{prefill.prompts} prompts of {prefill.tokens} tokens together{chunks}"


def drafts_text(generate: Generate) -> str:
    """`, 4 drafts each, 2.77 tokens a step`, where there are drafts."""
    told = generate.speculation
    return f", {told.drafted_tokens} drafts each, {told.tokens_per_step:.3g} tokens a step" if told else ""


def rule_table(phase: Prefill | Generate, mesh: Mesh) -> Table:
    """Logical axis -> mesh axes, with the strategy that follows."""
    sizes = {axis.name: axis.size for axis in mesh.axes}
    strategies = dict(phase.strategy)
    named = {"q_heads": "attention", "d_ff": "mlp", "kv_heads": "kv_cache", "vocab": "vocab", "experts": "experts"}
    table = plain_table("logical axis", "mesh axes", "ways", "what it cuts", "strategy")
    for logical, axes in dict(phase.rules).items():
        ways = 1
        for axis in axes:
            ways *= sizes[axis]
        strategy = strategies.get(named.get(logical, ""), "")
        table.add_row(logical, ", ".join(axes) or "-", str(ways), RULE_MEANING[logical], strategy)
    return table


def time_table(phase: Prefill | Generate) -> Table:
    """Predicted time of each part of a step, and what binds it."""
    table = plain_table("part", *PARTS, "total", "share", "binds", numeric=range(1, 7))
    for part in phase.parts:
        seconds = [getattr(part, f"{name}_s") for name in PARTS]
        share = percent_text(part.total_s / phase.step_s if phase.step_s else 0.0)
        table.add_row(part.address, *map(seconds_text, seconds), seconds_text(part.total_s), share, part.binds)
    return table


def collective_table(phase: Prefill | Generate) -> Table:
    """Planned collectives of a phase."""
    table = plain_table("collective", "kind", "axes", "bytes per chip", "count", "time a step", numeric=(3, 4, 5))
    for each in phase.collectives:
        row = (each.address, each.kind, ",".join(each.axes), bytes_text(each.bytes), str(each.count))
        table.add_row(*row, seconds_text(each.seconds))
    return table


def runner_up_text(runner_up: RunnerUp | None, phase: Prefill | Generate) -> str:
    """The best plan whose table of this phase differs, and its price."""
    if runner_up is None:
        return "  runner-up: none; no other layout of this phase is legal here and keeps the limits"
    price = dearer_text(runner_up.objective_ratio)
    differing = [f"{k} {v}" for k, v in dict(runner_up.strategy).items() if v != dict(phase.strategy).get(k)]
    return f"  runner-up: {'; '.join(differing)}: {seconds_text(runner_up.step_s)} a step, {price} in all"


def memory_table(hbm: Hbm, title: str = "HBM per chip") -> Table:
    """The HBM budget of one chip."""
    table = plain_table(title, "bytes", "share", numeric=(1, 2))
    for name, value in hbm_items(hbm).items():
        table.add_row(name, bytes_text(value), percent_text(value / hbm.capacity))
    table.add_row("capacity", bytes_text(hbm.capacity), "100 %")
    return table


def hbm_items(hbm: Hbm) -> dict[str, int]:
    """What fills a chip, item by item; second copies only where there are some."""
    items = ("weights", "copies", "kv_cache", "activations", "logits", "reserve", "free")
    return {name: value for name in items if (value := getattr(hbm, name)) is not None}


def copy_texts(prefill: Prefill) -> list[str]:
    """The second copies that prefill reads, a line for each: `a copy of the mlp weights: d_ff on x,y`."""
    return [f"a copy of the {block} weights: {cut_text(rules)}" for block, rules in (prefill.copies or {}).items()]


def cut_text(rules: CopyRules) -> str:
    """Which axes cut a copy."""
    cut = [f"{logical} on {','.join(axes)}" for logical, axes in rules if axes]
    return ", ".join(cut) or "whole on every chip"


def padding_table(plan: Plan) -> Table:
    """Dimensions that are stored wider than they are."""
    table = plain_table("padded", "from", "to", "bytes per chip", numeric=(1, 2, 3))
    for item in plan.padding:
        table.add_row(item.dimension, str(item.size), str(item.padded), bytes_text(item.bytes_per_chip))
    return table


def service_text(service: Service) -> str:
    """What users of the service see."""
    stall = "" if service.stall_s is None else f"; prefill stops generation for {seconds_text(service.stall_s)} at most"
    return (
        f"service (means): TTFT {seconds_text(service.ttft_s)}, TPOT {seconds_text(service.tpot_s)}, "
        f"{service.tokens_per_s:.4g} tokens/s, "
        f"{service.chip_seconds_per_million_tokens:.4g} chip-seconds{money_text(service)} per million output tokens"
        f"{stall}"
    )


def money_text(service: Service) -> str:
    """` (0.72 in money)`, where the spec has a price."""
    money = service.money_per_million_tokens
    return "" if money is None else f" ({money:.4g} in money)"


def proof_text(plan: Plan) -> str:
    """The proof, in a sentence, and what to expect of the numbers."""
    proof = plan.proof
    above = f", {percent_text(proof.above)} above the proven optimum" if proof.status == "NEAR" else ""
    near = f"near: {near_text(proof, proof.near)}\n" if proof.near else ""
    return (
        f"proof: {proof.status} for {proof.objective}{above}; {proof.candidates} candidates (mesh x batch), "
        f"{proof.solved} solved, the rest bounded away\n{near}accuracy: {plan.accuracy}"
    )


def near_text(proof: Proof, near: Near) -> str:
    """What a plan near an earlier one keeps and moves, and what that costs."""
    above = f"{percent_text(proof.above)} above the optimum" if proof.above else "the optimum"
    moved = f"up to {bytes_text(near.moved_bytes)} of weights move to a chip" if near.moved_bytes else "no weights move"
    if not near.moved_bytes and not near.changed:
        return f"kept the layout of {near.plan}: {above}, {moved}"
    changed = f"; {', '.join(near.changed)} {'change' if len(near.changed) > 1 else 'changes'}" if near.changed else ""
    return f"nearest to the layout of {near.plan} within {percent_text(near.within)}: {above}, {moved}{changed}"


def plain_table(*columns: str, numeric: Iterable[int] = ()) -> Table:
    """A table without a frame, numbers to the right."""
    right = set(numeric)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(columns[0], no_wrap=True)
    for index, column in enumerate(columns[1:], start=1):
        table.add_column(column, justify="right" if index in right else "left", no_wrap=index in right)
    return table
