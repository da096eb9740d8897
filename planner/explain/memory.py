"""What fills HBM, what is kept back, what the free bytes would hold, and why dimensions are padded."""

from planner.explain.explanation import Explanation, Subject
from planner.explain.limits import shadow_numbers, shadow_sentences
from planner.plan.kv_layout import kv_layout_text
from planner.plan.machine import stored_dtypes
from planner.plan.moves import CUT_BY
from planner.plan.padding import PADDED
from planner.plan.records import Hbm, Padding
from planner.plan.show import hbm_items
from planner.plan.units import bytes_text, percent_text
from planner.problem import hbm as formulas


def explain_hbm(subject: Subject) -> Explanation:
    """The HBM budget of one chip."""
    hbm = subject.plan.hbm
    sentences = (
        f"{bytes_text(hbm.total)} of the {bytes_text(hbm.available)} available on a chip are planned",
        *(item_sentence(subject, item) for item in hbm_items(hbm)),
        *shadow_sentences(subject.shadows, ("hbm",)),
    )
    numbers = {key: float(value) for key, value in dict(hbm).items()}
    return Explanation("hbm", sentences, {**numbers, **shadow_numbers(subject.shadows, ("hbm",))})


def explain_item(subject: Subject, item: str) -> Explanation:
    """One item of the budget."""
    value = getattr(subject.plan.hbm, item)
    return Explanation(f"hbm.{item}", (item_sentence(subject, item),), {"bytes": float(value)})


def item_sentence(subject: Subject, item: str) -> str:
    """An item, its share of the chip, and what it is."""
    hbm = subject.plan.hbm
    value = getattr(hbm, item)
    share = percent_text(value / hbm.capacity)
    return f"{item}: {bytes_text(value)} ({share} of the chip): {meaning(subject, item, hbm)}"


def meaning(subject: Subject, item: str, hbm: Hbm) -> str:
    """What the bytes of an item are."""
    plan = subject.plan
    match item:
        case "weights":
            stored = "as generate reads them" if plan.prefill.copies else "once for both phases"
            phases = f"stored {stored}" if plan.pool is None else "which these slices have to themselves"
            return f"the chip's part of all weights in {stored_dtypes(plan).weights}, {phases}"
        case "copies":
            blocks = " and ".join(plan.prefill.copies or ())
            return f"the chip's part of second copies of the {blocks} weights, stored as prefill reads them"
        case "kv_cache":
            if not hbm.kv_cache:
                return "none: prompts are handed over"
            one = bytes_text(sequence_bytes(subject))
            layout = "" if plan.generate.kv_layout is None else f"; {kv_layout_text(plan.generate.kv_layout)}"
            return (
                f"pages for {plan.generate.batch} sequences of {plan.generate.context} tokens; one takes {one}{layout}"
            )
        case "activations":
            if not hbm.activations:
                return "none: prompts are read on slices of their own"
            read = "a prompt" if plan.prefill.prompts == 1 else f"{plan.prefill.prompts} prompts"
            by_chunks = "" if plan.prefill.chunk is None else f", read in chunks of {plan.prefill.chunk}"
            return f"what prefill holds at most, for {read} of {plan.prefill.buckets[-1]} tokens{by_chunks}"
        case "logits":
            if not hbm.logits:
                return "none in a step"
            told = plan.generate.speculation
            rows = f", {told.drafted_tokens + 1} rows each" if told else ""
            return f"float32 logits of {plan.generate.batch} sequences{rows}, the chip's part of the vocabulary"
        case "reserve":
            return "kept back for the compiler and the runtime (hardware.reserve)"
        case "free":
            return free_text(subject)
        case "available":
            return "the capacity less the reserve"
        case "total":
            return f"weights, {'copies, ' if plan.prefill.copies else ''}KV cache, activations and logits together"
        case _:
            return f"all HBM of one {plan.chip} chip"


def sequence_bytes(subject: Subject) -> float:
    """Bytes per chip that one more sequence of full context takes, on average over the chips that share the batch."""
    one = slots_cut(subject)
    return (cache_bytes(subject, 2 * one) - cache_bytes(subject, one)) / one


def slots_cut(subject: Subject) -> int:
    """Ways that the sequences of the KV cache are cut."""
    return subject.machine.ways(subject.rules.generate.rows + subject.rules.generate.batch)


def cache_bytes(subject: Subject, batch: int) -> int:
    """KV cache and logits of `batch` sequences on one chip."""
    plan, stored, machine = subject.plan.generate, subject.rules.generate, subject.machine
    cache = formulas.kv_cache_bytes(stored, batch, plan.context, plan.page_tokens, machine.sizes, machine.ways)
    return cache + formulas.logits_bytes(stored, batch, machine.sizes, machine.ways)


def more_sequences(subject: Subject) -> int:
    """How many more sequences of full context the free bytes hold, in multiples of what the batch axes cut."""
    step = slots_cut(subject)
    return step * int(subject.plan.hbm.free // (step * sequence_bytes(subject)))


def free_text(subject: Subject) -> str:
    """What the free bytes are good for."""
    if not subject.plan.hbm.kv_cache:
        return "left over"
    more, context = more_sequences(subject), subject.plan.generate.context
    batch, concurrency = subject.plan.generate.batch, subject.spec.workload.concurrency
    asked = " (all that workload.concurrency asks for)" if batch == concurrency else f" of {concurrency} asked for"
    room = f"room for {more} more sequences of {context} tokens" if more else f"no room for another {context} tokens"
    return f"{room} beside the {batch} planned{asked}"


def explain_padding(subject: Subject) -> list[Explanation]:
    """Each padded dimension, and why."""
    return [
        Explanation(f"padding.{each.dimension}", (padding_sentence(subject, each),), {"bytes": each.bytes_per_chip})
        for each in subject.plan.padding
    ]


def padding_sentence(subject: Subject, each: Padding) -> str:
    """What was padded, what it costs, and what asked for it."""
    wasted = percent_text(each.padded / each.size - 1)
    spent = "to keep and to read" if each.dimension in ("head_dim", "latent") else "to compute"
    cost = f"{bytes_text(each.bytes_per_chip)} of padding on a chip at most, {wasted} more {spent}"
    return f"{each.size} stored as {each.padded}: {padding_reason(subject, each)}; {cost}"


def padding_reason(subject: Subject, each: Padding) -> str:
    """Why a dimension is stored wider than it is."""
    dimension, ways = each.dimension.removeprefix("prefill."), subject.machine.ways
    stored = subject.rules.generate
    if dimension != each.dimension:
        stored = next(subject.rules.copies[block] for block, names in PADDED.items() if dimension in names)
    heads = subject.machine.sizes.heads(stored, ways)
    if dimension in ("head_dim", "latent"):
        return f"the KV cache keeps whole lanes, {subject.machine.sizes.lanes} to a row"
    if dimension == "q_heads":
        shard = "1 head" if heads.kv_local == 1 else f"{heads.kv_local} heads"
        served = heads.kv_local * heads.group
        spread = (
            f", stored as {heads.q_shard} so that {heads.q_ways} chips share them evenly" if heads.q_ways > 1 else ""
        )
        return f"a KV shard of {shard} serves {served} query heads{spread}; there are {heads.kv_ways} shards"
    axes = getattr(stored, CUT_BY.get(dimension, dimension))
    return f"cut {ways(axes)} ways ({','.join(axes)}), {each.padded // ways(axes)} on each chip"
