"""The matmuls of a part on one chip: rows, inner, outer, and how many layers run them. Sizes include padding."""

from dataclasses import dataclass

from planner.explain.explanation import Subject
from planner.problem.rules import exchanged_batch, without


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
    find = {"attention": attention, "mlp": mlp, "logits": logits}.get(part.split(".")[0])
    return find(subject, phase).get(part, []) if find else []


def attention(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """Projections. In generate, keys and values are made for the chip's own sequences only."""
    sizes, ways, layers = subject.machine.sizes, subject.machine.ways, subject.machine.sizes.layers
    (stored, rules), heads = subject.rules, sizes.heads(subject.rules.generate, ways)
    if phase == "generate":
        rows: float = subject.plan.generate.batch / ways(stored.rows)
        kv_rows = rows / ways(exchanged_batch(stored))
        inner, q_heads, kv_heads = sizes.d_model / ways(stored.d_model), heads.q_local, float(heads.kv_local)
    else:
        kv_rows = rows = prompt_rows(subject) / ways(without(rules.tokens, rules.q_heads))
        inner, kv_heads = sizes.d_model / ways(rules.d_model), heads.kv_padded / ways(rules.kv_heads)
        q_heads = heads.q_padded // ways(rules.q_heads)
    width = q_heads * sizes.head_dim
    keys = Matmul(kv_rows, inner, 2 * kv_heads * sizes.head_dim, layers)
    return {
        "attention.qkv": [Matmul(rows, inner, width, layers), keys],
        "attention.out": [Matmul(rows, width, inner, layers)],
    }


def prompt_rows(subject: Subject) -> int:
    """Rows of the prompts that a prefill reads together."""
    return subject.plan.prefill.prompts * subject.plan.prefill.tokens


def mlp(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """Gate and up together, and down."""
    sizes, ways, (stored, rules) = subject.machine.sizes, subject.machine.ways, subject.rules
    d_ff = sizes.padded_d_ff(ways(stored.d_ff))
    if phase == "generate":
        rows: float = subject.plan.generate.batch / ways(without(stored.rows, stored.d_ff))
        inner, outer = sizes.d_model / ways(stored.d_model), d_ff / ways(stored.d_ff)
    else:
        rows = prompt_rows(subject) / ways(without(rules.tokens, rules.d_ff))
        inner, outer = sizes.d_model / ways(rules.d_model), d_ff / ways(rules.d_ff)
    return {
        "mlp.hidden": [Matmul(rows, inner, 2 * outer, sizes.layers)],
        "mlp.out": [Matmul(rows, outer, inner, sizes.layers)],
    }


def logits(subject: Subject, phase: str) -> dict[str, list[Matmul]]:
    """The head: every sequence of a generate step, the last token of each prompt."""
    sizes, ways, (stored, rules) = subject.machine.sizes, subject.machine.ways, subject.rules
    axes, rows = rules.vocab, float(subject.plan.prefill.prompts)
    if phase == "generate":
        axes, rows = stored.vocab, subject.plan.generate.batch / ways(without(stored.rows, stored.vocab))
    return {"logits": [Matmul(rows, sizes.d_model, sizes.padded_vocab(ways(axes)) / ways(axes), 1)]}
