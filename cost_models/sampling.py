"""From the last hidden state to a token: the head, its logits, and the choice among shards of the vocabulary.

B sequences, width D, vocabulary V sharded Y ways. A sharded choice sends candidates; gathering the logits sends all.
"""

import math
from collections.abc import Sequence

from cost_models.chips import Chip
from cost_models.collectives import all_gather_s
from cost_models.matmul import hbm_s, matmul
from cost_models.roofline import Roofline
from cost_models.stacks import BOOK, Stack
from cost_models.torus import Links

CANDIDATE_BYTES = 8
"""A float32 logit and the int32 id of its token."""

LOGIT_BYTES = 4
"""A logit is kept in float32."""


def logits_bytes(sequences: float, vocab: int, ways: int = 1) -> float:
    """Bytes of one chip's float32 logits of one step, its shard of V rounded up."""
    return LOGIT_BYTES * sequences * -(-vocab // ways)


def logits(
    sequences: float,
    d_model: int,
    vocab: int,
    ways: int = 1,
    *,
    weight_bytes_per_element: float,
    activation_bytes_per_element: float,
    compute_dtype: str,
    chip: Chip,
    stack: Stack = BOOK,
) -> Roofline:
    """Roofline of one chip's part of the output head, V / Y columns, and of writing its logits in float32."""
    head = matmul(
        sequences,
        d_model,
        -(-vocab // ways),
        weight_bytes_per_element=weight_bytes_per_element,
        activation_bytes_per_element=activation_bytes_per_element,
        compute_dtype=compute_dtype,
        chip=chip,
        stack=stack,
    )
    wider = (LOGIT_BYTES - activation_bytes_per_element) * sequences * -(-vocab // ways)
    return head + Roofline(hbm_s=hbm_s(wider, chip, stack))


def sharded_top_k(
    sequences: float, vocab: int, top_k: int, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK
) -> Roofline:
    """Roofline of choosing among `top_k` k tokens (1: greedy) of a vocabulary sharded over `axes`.

    Each chip reads its logits once and gives its k best; B * k * Y candidates of 8 bytes are gathered and merged.
    """
    ways = math.prod(axis.size for axis in axes)
    candidates = CANDIDATE_BYTES * sequences * min(top_k, -(-vocab // ways)) * ways
    read_s = hbm_s(logits_bytes(sequences, vocab, ways), chip, stack)
    return Roofline(hbm_s=read_s, ici_s=all_gather_s(candidates, axes, chip, stack))


def gathered_choice(sequences: float, vocab: int, axes: Sequence[Links], chip: Chip, stack: Stack = BOOK) -> Roofline:
    """Roofline of gathering all logits on every chip and choosing there: what `sharded_top_k` is there to avoid."""
    moved_bytes = logits_bytes(sequences, vocab)
    read_s = hbm_s(moved_bytes, chip, stack)
    return Roofline(hbm_s=read_s, ici_s=all_gather_s(moved_bytes, axes, chip, stack))


def embedding(rows: float, d_model: int, element_bytes: float, chip: Chip, stack: Stack = BOOK) -> Roofline:
    """Roofline of looking `rows` tokens up: one row of the table read and one activation written for each."""
    return Roofline(hbm_s=hbm_s(2 * rows * d_model * element_bytes, chip, stack))
