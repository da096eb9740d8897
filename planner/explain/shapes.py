"""The matmuls of a part on one chip: rows, inner, outer, and how many layers run them. Sizes include padding."""

from dataclasses import dataclass, replace

from planner.explain.explanation import Subject
from planner.plan.machine import drafts_of
from planner.problem.chunks import Steps, steps_of
from planner.problem.drafts import rows_of
from planner.problem.routed import expert_columns, routed
from planner.problem.rules import (
    Axes,
    GenerateRules,
    PrefillRules,
    exchanged_batch,
    padded_width,
    prompt_axes,
    scattered_batch,
    without,
)


@dataclass(frozen=True)
class Matmul:
    """`[rows, inner] x [inner, outer]` on one chip, `repeats` times a step."""

    rows: float
    inner: float
    outer: float
    repeats: int

    @property
    def flops(self) -> float:
        """Operations of all of them: 2 * rows * inner * outer, each."""
        return 2 * self.rows * self.inner * self.outer * self.repeats

    def text(self) -> str:
        """`80 x [32, 8192] x [8192, 3584]`."""
        rows, inner, outer = (f"{size:.10g}" for size in (self.rows, self.inner, self.outer))
        return f"{self.repeats} x [{rows}, {inner}] x [{inner}, {outer}]"


def matmuls(subject: Subject, address: str) -> list[Matmul]:
    """The weight matmuls of a part; none for attention over the cache and for what only moves bytes."""
    phase, _, part = address.partition(".")
    find = {"attention": attention, "mlp": mlp, "experts": experts, "logits": logits}.get(part.split(".")[0])
    found = find(subject, phase).get(part, []) if find else []
    times = prompt_steps(subject).number if phase == "prefill" else 1
    return [replace(each, repeats=each.repeats * times) for each in found]


def attention(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """Projections. In generate, keys and values are made for the chip's own sequences only."""
    sizes, ways, layers = subject.machine.sizes, subject.machine.ways, subject.machine.sizes.layers
    stored, rules, heads = (
        subject.rules.generate,
        subject.rules.prefill,
        sizes.heads(read(subject, phase, "attention"), ways),
    )
    if phase == "generate":
        rows: float = generate_rows(subject) / ways(stored.rows)
        kv_rows = rows / ways(exchanged_batch(stored))
        inner, q_heads, kv_heads = sizes.d_model / ways(stored.d_model), heads.q_local, float(heads.kv_local)
    else:
        kv_rows = rows = prompt_rows(subject) / ways(without(rules.tokens, rules.q_heads))
        inner, kv_heads = sizes.d_model / ways(rules.d_model), heads.kv_padded / ways(rules.kv_heads)
        q_heads = heads.q_padded // ways(rules.q_heads)
    made = Matmul(rows, inner, sizes.q_made(q_heads), layers), Matmul(kv_rows, inner, sizes.kv_made(kv_heads), layers)
    return {
        "attention.qkv": [*made, *of_latents(subject, phase, rows, q_heads)],
        "attention.out": [Matmul(rows, q_heads * sizes.out_dim, inner, layers)],
    }


def of_latents(subject: Subject, phase: str, rows: float, q_heads: int) -> list[Matmul]:
    """What heads make of latents: keys and values, in prefill of all tokens that they attend to, and queries."""
    sizes, ways, (stored, rules, _) = subject.machine.sizes, subject.machine.ways, subject.rules
    latent, layers = sizes.latent, sizes.layers
    if latent is None:
        return []
    if phase == "generate":
        apart = read = rows / ways(scattered_batch(stored))
    else:
        own, prompts = without(rules.tokens, rules.q_heads), subject.plan.prefill.prompts
        apart = rows / ways(rules.d_model)
        read = prompts * prompt_steps(subject).mean_read / ways(prompt_axes(own, prompts, ways))
    found = [Matmul(read, latent.latent_dim, q_heads * latent.made_dim, layers)]
    if latent.query_latent_dim:
        found.append(Matmul(apart, latent.query_latent_dim, q_heads * latent.query_head_dim, layers))
    return found


def generate_rows(subject: Subject) -> int:
    """Rows of a generate step: the last token of every sequence, and its drafts."""
    return subject.plan.generate.batch * rows_of(drafts_of(subject.plan))


def prompt_rows(subject: Subject) -> int:
    """Rows of the prompts that a step of prefill reads together."""
    return subject.plan.prefill.prompts * prompt_steps(subject).tokens


def prompt_steps(subject: Subject) -> Steps:
    """The steps that read the planned bucket."""
    return steps_of(subject.plan.prefill.tokens, subject.plan.prefill.chunk)


def read(subject: Subject, phase: str, block: str) -> GenerateRules:
    """The table by which the weights that a phase reads of a block are stored."""
    return subject.rules.generate if phase == "generate" else subject.rules.read(block)


def computed(subject: Subject, phase: str) -> GenerateRules | PrefillRules:
    """The table that a phase computes by."""
    return subject.rules.generate if phase == "generate" else subject.rules.prefill


def mlp(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """Gate and up together, and down, of every dense MLP."""
    sizes, ways = subject.machine.sizes, subject.machine.ways
    stored, here = read(subject, phase, "mlp"), computed(subject, phase)
    rows = step_rows(subject, phase) / ways(without(cut_rows(subject, phase), here.d_ff))
    inner, hidden, out = sizes.d_model / ways(here.d_model), [], []
    for each in sizes.mlps:
        columns = padded_width(each.d_ff, ways(stored.d_ff)) / ways(here.d_ff)
        hidden.append(Matmul(rows, inner, sizes.inputs * columns, each.layers))
        out.append(Matmul(rows, columns, inner, each.layers))
    return {"mlp.hidden": hidden, "mlp.out": out}


def experts(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """The router; gate and up together, and down, of the rows that the busiest chip's experts take."""
    sizes, ways = subject.machine.sizes, subject.machine.ways
    stored, here = read(subject, phase, "experts"), computed(subject, phase)
    has = routed(cut_rows(subject, phase), here, step_rows(subject, phase), sizes, ways)
    inner, columns = sizes.d_model / ways(here.d_model), expert_columns(stored, here, sizes, ways)
    layers = sizes.sparse_layers
    router = Matmul(has.gathered, inner, sizes.experts.experts, layers)
    return {
        "experts.hidden": [router, Matmul(has.rows, inner, sizes.inputs * columns, layers)],
        "experts.out": [Matmul(has.rows, columns, inner, layers)],
    }


def step_rows(subject: Subject, phase: str) -> int:
    """Rows of the residual stream in one step."""
    return generate_rows(subject) if phase == "generate" else prompt_rows(subject)


def cut_rows(subject: Subject, phase: str) -> Axes:
    """The axes that cut them."""
    return subject.rules.generate.rows if phase == "generate" else subject.rules.prefill.tokens


def logits(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """The head: every sequence of a generate step, the last token of each prompt."""
    sizes, ways, (stored, rules, _) = subject.machine.sizes, subject.machine.ways, subject.rules
    axes, rows = rules.vocab, float(subject.plan.prefill.prompts)
    if phase == "generate":
        axes, rows = stored.vocab, generate_rows(subject) / ways(without(stored.rows, stored.vocab))
    return {"logits": [Matmul(rows, sizes.d_model, sizes.padded_vocab(ways(axes)) / ways(axes), 1)]}
