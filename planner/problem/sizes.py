"""The sizes of one model as the cost functions read them: plain numbers, bytes per element included."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cost_models.dtypes import bytes_per_element
from planner.problem.rules import GenerateRules, Heads, Ways, padded_heads, padded_width, without

if TYPE_CHECKING:
    from planner.spec import Spec

SCALE_BYTES = 4
CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """Model sizes in elements, dtypes in bytes per element; `scale_bytes` is 0 when weights are not quantised."""

    layers: int
    d_model: int
    d_ff: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    weight_bytes: float
    scale_bytes: int
    activation_bytes: float
    kv_bytes: float
    compute_dtype: str

    def heads(self, rules: GenerateRules, ways: Ways) -> Heads:
        """Stored heads under a generate table."""
        return padded_heads(
            self.q_heads, self.kv_heads, ways(rules.kv_heads), ways(without(rules.q_heads, rules.kv_heads))
        )

    def padded_d_ff(self, ways: int) -> int:
        """d_ff as stored when it is cut `ways`."""
        return padded_width(self.d_ff, ways)

    def padded_vocab(self, ways: int) -> int:
        """Vocabulary rows as stored when they are cut `ways`."""
        return padded_width(self.vocab, ways)


def sizes_of(spec: "Spec") -> Sizes:
    """The sizes in a spec."""
    model = spec.model
    quantised = model.weights.dtype == "int8"
    return Sizes(
        layers=model.layers,
        d_model=model.d_model,
        d_ff=model.d_ff,
        q_heads=model.q_heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        vocab=model.vocab,
        tied=model.tied_embeddings,
        weight_bytes=bytes_per_element(model.weights.dtype),
        scale_bytes=SCALE_BYTES if quantised else 0,
        activation_bytes=bytes_per_element(model.activations.dtype),
        kv_bytes=bytes_per_element(model.kv_cache.dtype),
        compute_dtype=model.activations.dtype,
    )
