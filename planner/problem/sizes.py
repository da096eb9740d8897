"""The sizes of one model as the cost functions read them: plain numbers, bytes per element included."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cost_models.chips import chip
from cost_models.dtypes import bytes_per_element
from planner.problem.rules import GenerateRules, Heads, Ways, padded_heads, padded_width, without

if TYPE_CHECKING:
    from planner.spec import Spec

SCALE_BYTES = 4
CANDIDATES = 64
TPU_LANES, SUBLANES = 128, 8


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
    lanes: int = 1
    """Width to which the minor dimension of a kept array is padded in HBM: 128 on a TPU."""

    @property
    def stored_head_dim(self) -> int:
        """Elements that a head of the KV cache takes."""
        return padded_width(self.head_dim, self.lanes)

    @property
    def kv_read_bytes(self) -> float:
        """Bytes of HBM that are read for one element of the KV cache, lane padding included."""
        return self.kv_bytes * self.stored_head_dim / self.head_dim

    def stored_kv_rows(self, kv_heads: int) -> int:
        """Rows that keys and values of `kv_heads` heads take in a page: on a TPU a power of two, or a multiple of 8."""
        rows = 2 * kv_heads
        if self.lanes == 1:
            return rows
        return padded_width(rows, SUBLANES) if rows > SUBLANES else 1 << (rows - 1).bit_length()

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
    """The sizes in a spec, as its chip stores them."""
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
        lanes=TPU_LANES if chip(spec.hardware.chip).kind == "tpu" else 1,
    )
