"""Why a planned collective is there, and who waits for it."""

from cost_models.torus import hosts_touched, mesh_groups
from planner.explain.explanation import Explanation, Subject
from planner.plan.schema import Collective
from planner.plan.units import bytes_text, seconds_text
from planner.problem.costs import PART_OF
from planner.problem.machine import Machine
from planner.problem.primitives import Collective as Planned

WHY = {
    "embedding.lookup": "each chip looks up only the rows of its own vocabulary shard, so the rows are summed",
    "attention.norm": "d_model is cut, so the mean square of a row is a sum over chips",
    "attention.tokens": "tokens are cut on axes that also cut heads, so the rows are brought together first",
    "attention.q": "d_model is cut, so the products with w_q are partial sums",
    "attention.kv": "d_model is cut, so the products with w_kv are partial sums",
    "attention.qkv": "d_model is cut, so the products with w_q and w_kv are partial sums",
    "attention.gather_w_latent": "w_latent is stored on more chips than compute with it, so it is gathered before use",
    "attention.gather_w_q": "w_q is stored on more chips than compute with it, so it is gathered before use",
    "attention.gather_w_kv": "w_kv is stored on more chips than compute with it, so it is gathered before use",
    "attention.gather_w_o": "w_o is stored on more chips than compute with it, so it is gathered before use",
    "attention.q_to_batch": "queries go to the chips that hold the KV cache of their sequences",
    "attention.q_to_tokens": "the tokens of the KV cache are cut, so every part gets the queries of all its heads",
    "attention.softmax": "each chip attends to its part of the tokens, and weighs its outputs by the sums of all parts",
    "attention.o_from_tokens": "each chip attends to its part of the tokens, so the outputs are partial sums",
    "attention.o_to_heads": "attention outputs go back to the chips that hold their heads",
    "attention.o_rows": "each chip attends for its own sequences, so the output rows are brought together",
    "attention.kv_tokens": "tokens are cut, and every token attends to the keys and values of all",
    "attention.o_tokens": "each chip attends for its own tokens, so the output rows are brought together",
    "attention.out": "heads are cut, so the products with w_o are partial sums",
    "mlp.norm": "d_model is cut, so the mean square of a row is a sum over chips",
    "mlp.tokens": "tokens are cut on axes that also cut d_ff, so the rows are brought together",
    "mlp.gather_w_in": "gate and up are stored on more chips than compute with them, so they are gathered before use",
    "mlp.gather_w_down": "down is stored on more chips than compute with it, so it is gathered before use",
    "mlp.rows": "sequences are cut on axes that also cut d_ff, so the rows are brought together",
    "mlp.hidden": "d_model is cut, so gate and up are partial sums",
    "mlp.hidden_rows": "each chip applies the activation to its own rows, so they are brought together for down",
    "mlp.out": "d_ff is cut, so the products with w_down are partial sums",
    "experts.norm": "d_model is cut, so the mean square of a row is a sum over chips",
    "experts.tokens": "tokens are cut on axes that also cut the columns of experts, so the rows are brought together",
    "experts.rows": "sequences are cut on axes that also cut the columns of experts, so the rows are brought together",
    "experts.router": "d_model is cut, so the scores of the router are partial sums",
    "experts.gather_w_router": "the router is stored on more chips than compute with it, so it is gathered before use",
    "experts.dispatch": "rows go to the chips that hold their experts; the busiest chip takes in the most",
    "experts.gather_w_in": "gate and up are stored on more chips than compute with them, so they are gathered first",
    "experts.gather_w_down": "down is stored on more chips than compute with it, so it is gathered before use",
    "experts.hidden": "d_model is cut, so gate and up are partial sums",
    "experts.hidden_rows": "each chip applies the activation to its own rows, so they are brought together for down",
    "experts.combine": "what experts made of rows goes back to the chips of the rows",
    "experts.out": "experts, or the columns of each, are cut, so what a chip adds to a row is a partial sum",
    "logits.last": "tokens are cut, so only one chip holds the last one",
    "logits.norm": "d_model is cut, so the mean square of a row is a sum over chips",
    "logits.residual": "d_model is cut, and each chip needs whole rows for its part of the vocabulary",
    "logits.rows": "sequences are cut on axes that also cut the vocabulary, so the rows are brought together",
    "sampling.tokens": "sequences are cut, and every chip looks up the next tokens of all",
    "pipeline.rows": "layers are cut into stages, so the rows go on to the chips that hold the next",
    "insert.kv_prompt": "prompts are cut over chips, and one that is inserted may belong to any of them",
    "sampling.candidates": "the vocabulary is cut, so each chip offers its best candidates, never the logits",
}

LATENCY_BOUND = 0.5
"""From this part of its time on a collective waits for hops more than for bytes."""
FEW_CHIPS = 8
"""As many chips of a group as are named."""


def collective_text(each: Collective) -> str:
    """`80 x all_reduce over x,y of 524 kB: 960 us a step`."""
    size, seconds = bytes_text(each.bytes), seconds_text(each.seconds)
    return f"{each.count} x {each.kind} over {','.join(each.axes)} of {size}: {seconds} a step"


def latency_share(subject: Subject, each: Collective) -> float:
    """The part of a collective's time that it would take for a single byte: its launch and its hops, no bandwidth."""
    chosen = subject.chosen.reads if each.address.startswith("prefill.") else subject.chosen
    least_s = chosen.collective_s(Planned(each.address, each.kind, each.axes, 1, 1))
    return min(1.0, least_s * each.count / each.seconds) if each.seconds else 0.0


def is_latency_bound(subject: Subject, each: Collective) -> bool:
    """Whether at least half of a collective's time would be left if it carried no more than a byte."""
    return latency_share(subject, each) >= LATENCY_BOUND


def waits_for(each: Collective) -> str:
    """The address of the part that is charged for a collective."""
    phase, _, name = each.address.partition(".")
    return f"{phase}.{PART_OF[name]}"


def why(each: Collective) -> str:
    """The reason for a collective; scales follow their weight."""
    name = each.address.partition(".")[2]
    reason = WHY.get(name.removesuffix("_scale"), "planned with its part")
    return f"the scales of a weight: {reason}" if name.endswith("_scale") else reason


def groups_text(each: Collective, machine: Machine) -> str:
    """`2 groups of 8 chips, each on 2 hosts, one of them (0,0) (0,1) ...`: who takes part, by torus coordinates."""
    groups = mesh_groups(machine.mesh, each.axes, machine.slice)
    chips = " ".join(f"({','.join(map(str, chip))})" for chip in groups[0][:FEW_CHIPS])
    hosts = max(hosts_touched(group, machine.slice) for group in groups)
    many = f"{len(groups)} group{'s' if len(groups) > 1 else ''} of {len(groups[0])} chips"
    on_hosts = f"on {hosts} host{'s' if hosts > 1 else ''}"
    return f"{many}, each {on_hosts}; the first is {chips}{' ...' if len(groups[0]) > FEW_CHIPS else ''}"


def explain_collectives(subject: Subject, address: str) -> Explanation | None:
    """The collectives at one address."""
    found = [each for each in subject.collectives() if each.address == address]
    if not found:
        return None
    sentences = [f"{collective_text(each)}, on which {waits_for(each)} waits" for each in found]
    sentences += dict.fromkeys(f"among: {groups_text(each, subject.machine)}" for each in found)
    return Explanation(address, (*sentences, f"why: {why(found[0])}"), {"seconds": sum(e.seconds for e in found)})
