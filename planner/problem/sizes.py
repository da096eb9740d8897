"""The sizes of one model as the cost functions read them: plain numbers, bytes per element included."""

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from cost_models.chips import chip
from cost_models.dtypes import bytes_per_element
from planner.problem.rules import GenerateRules, Heads, Ways, padded_heads, padded_width, without

if TYPE_CHECKING:
    from planner.spec import Spec

SCALE_BYTES = 4
CANDIDATES = 64
TILE_LANES = 128
TILE_ROWS = 8
WHOLE_ROWS = frozenset({2, 4})
"""Rows of fewer than TILE_ROWS that a TPU tile holds without padding."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Model sizes in elements, dtypes in bytes per element; `scale_bytes` is 0 when weights are not quantised.

    `tiled` chips keep the last two dimensions of an array in tiles of 8 x 128.
    """

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
    tiled: bool = False

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

    def cached_head_dim(self) -> int:
        """Elements that one key or value of one head takes in the cache."""
        return padded_width(self.head_dim, TILE_LANES) if self.tiled else self.head_dim

    def cached_token(self, kv_local: int) -> int:
        """Elements that the keys and values of one token take in one layer of the cache, `kv_local` heads on the chip.

        The cache is row-major, [.., 2 * kv_heads, head_dim]; tiles round both dimensions up.
        """
        rows = 2 * kv_local
        if self.tiled and rows not in WHOLE_ROWS:
            rows = ceil(rows / TILE_ROWS) * TILE_ROWS
        return rows * self.cached_head_dim()


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
        tiled=chip(spec.hardware.chip).kind == "tpu",
    )
