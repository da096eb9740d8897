"""How one chip keeps the KV cache: the order of its dimensions, what they are padded to, and the kernel that reads it.

jax's ragged paged attention reads pages of heads, for the sizes it knows. Our own paged decode reads pages whose rows
hold all heads of a token side by side, quantised or not, and returns the log-sum-exp that parts of a sequence are
merged by; it takes every size that the other does not know, as plain JAX would lay a cache out anew in every layer to
gather its pages. What is not computed in bf16 on a TPU is left to plain JAX, in pages of heads.
"""

from functools import cache
from typing import Literal, NamedTuple

TPU_LANES, SUBLANES = 128, 8
SCALE_BYTES = 4
INT8_BYTES = 1
WIDE_BYTES = 2
RAGGED_HEAD_DIM = 128
RAGGED_COMBINED_HEADS = frozenset({2, 4, 8, 16})
"""Keys and values per chip (2 * KV heads) that jax's ragged paged attention accepts and scatters without a copy."""
TOKENS_PER_BLOCK = 1024
MOST_PAGES_PER_BLOCK = 16
QUERIES_PER_BLOCK = 32

Kernel = Literal["ragged_paged_attention", "paged_decode"]


class KvForm(NamedTuple):
    """What a token takes in one layer of one chip's pages: `rows` x `width` elements of `element_bytes`, padded.

    `scale_rows`: rows of a page's scales, each as wide as the page; 0 where values have none.
    """

    kernel: Kernel | None
    flat: bool
    rows: int
    width: int
    element_bytes: float
    scale_rows: int
    lanes: int

    @property
    def token_bytes(self) -> float:
        """Bytes of one token's keys and values, without scales."""
        return self.rows * self.width * self.element_bytes

    def page_bytes(self, page_tokens: int) -> float:
        """Bytes of one page of one layer, scales included."""
        return page_tokens * self.token_bytes + self.scale_rows * whole(page_tokens, self.lanes) * SCALE_BYTES


def whole(size: int, unit: int) -> int:
    """`size` rounded up to whole units."""
    return -(-size // unit) * unit


def stored_rows(rows: int, lanes: int) -> int:
    """Rows that an array has whose last dimension is lanes: on a TPU a power of two, or a multiple of 8."""
    if lanes == 1:
        return rows
    return whole(rows, SUBLANES) if rows > SUBLANES else 1 << (rows - 1).bit_length()


@cache
def kv_form(
    kv_heads: int, head_dim: int, kv_bytes: float, activation_bytes: float, lanes: int, cut_tokens: bool
) -> KvForm:
    """The form in which a chip keeps `kv_heads` heads; `lanes` is 128 on a TPU, 1 elsewhere."""
    combined, scaled = 2 * kv_heads, kv_bytes == INT8_BYTES
    kernel = kernel_of(combined, head_dim, kv_bytes, activation_bytes, lanes, cut_tokens)
    scale_rows = stored_rows(combined, lanes) if scaled else 0
    if kernel == "paged_decode":
        return KvForm(kernel, True, 1, whole(combined * head_dim, lanes), kv_bytes, scale_rows, lanes)
    rows, width = stored_rows(combined, lanes), whole(head_dim, lanes)
    return KvForm(kernel, False, rows, width, kv_bytes, scale_rows, lanes)


def kernel_of(
    combined: int, head_dim: int, kv_bytes: float, activation_bytes: float, lanes: int, cut_tokens: bool
) -> Kernel | None:
    """The kernel that reads such a cache; None for plain JAX. Kernels are for TPUs that compute in bf16."""
    if lanes == 1 or activation_bytes != 2:
        return None
    if cut_tokens or kv_bytes == INT8_BYTES:
        return "paged_decode"
    if kv_bytes != activation_bytes:
        return None
    legal = head_dim == RAGGED_HEAD_DIM and combined in RAGGED_COMBINED_HEADS
    return "ragged_paged_attention" if legal else "paged_decode"


class Blocks(NamedTuple):
    """What a kernel holds in VMEM at a time."""

    pages: int
    queries: int | None
    vmem_bytes: int


def blocks_of(form: KvForm, page_tokens: int, slots: int, pages_per_slot: int, core_vmem_bytes: int) -> Blocks:
    """Blocks of about a thousand tokens that fit twice, one being read while the next arrives.

    A kernel may take half of a core's VMEM, and its pages half of that; the rest is for what XLA keeps there. Quantised
    values are widened to two copies of two bytes. Of a page that does not fit the kernel reads parts.
    """
    allowed = core_vmem_bytes // 2
    widened = 2 * WIDE_BYTES * page_tokens * form.rows * form.width if form.scale_rows else 0
    fitting = int(allowed // 2 // (2 * form.page_bytes(page_tokens) + widened))
    pages = min(TOKENS_PER_BLOCK // page_tokens, MOST_PAGES_PER_BLOCK, pages_per_slot, fitting)
    queries = min(QUERIES_PER_BLOCK, slots) if form.kernel == "ragged_paged_attention" else None
    return Blocks(max(1, pages), queries, allowed)
