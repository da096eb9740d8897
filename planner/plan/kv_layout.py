"""How the KV cache of a plan is laid out on a chip, and the kernel that reads it: as planned, or derived again."""

from cost_models.chips import chip
from cost_models.dtypes import bytes_per_element
from planner.plan.records import KvLayout
from planner.plan.schema import Generate, GenerateRules, Plan
from planner.problem.kv_layout import Blocks, KvForm, blocks_of, kv_form
from planner.problem.rules import Ways, padded_heads
from planner.spec.model import Model

DEFAULT_VMEM_BYTES = 16 * 2**20
"""VMEM of a core that the catalogue says nothing of; the smallest of all."""
TPU_LANES = 128


def kv_layout_of(plan: Plan) -> KvLayout | None:
    """The layout that a plan records; one that was made before it did is told as it would be made today."""
    if plan.generate.kv_layout is not None:
        return plan.generate.kv_layout
    model = Model.model_validate(plan.spec.get("model"))
    kv_dtype = plan.dtypes.kv_cache if plan.dtypes else model.kv_cache.chosen
    ways = Ways({axis.name: axis.size for axis in plan.mesh.axes})
    return kv_layout(plan.generate, model, kv_dtype, plan.chip, ways)


def kv_layout(generate: Generate, model: Model, kv_dtype: str, chip_name: str, ways: Ways) -> KvLayout | None:
    """The layout of the cache of a generate phase; None for caches of latents and of windows, which have their own."""
    if model.mla is not None or model.sliding_window is not None:
        return None
    rules, lanes = generate.rules, TPU_LANES if chip(chip_name).kind == "tpu" else 1
    heads = kv_heads_of(rules, model, ways)
    element, activation = bytes_per_element(kv_dtype), bytes_per_element(model.activations.dtype)
    form = kv_form(heads, model.head_dim, element, activation, lanes, bool(rules.kv_tokens))
    slots = generate.batch // ways(rules.rows + rules.batch)
    pages_per_slot = -(-generate.context // (generate.page_tokens * ways(rules.kv_tokens)))
    blocks = None
    if lanes > 1:
        blocks = blocks_of(form, generate.page_tokens, slots, pages_per_slot, core_vmem_bytes(chip_name))
    return record(form, blocks, heads, model.head_dim, slots * pages_per_slot + 1, generate.page_tokens)


def kv_heads_of(rules: GenerateRules, model: Model, ways: Ways) -> int:
    """KV heads that one chip stores."""
    kv_ways = ways(rules.kv_heads)
    return padded_heads(model.q_heads, model.kv_heads, kv_ways, ways(rules.q_heads) // kv_ways).kv_local


def core_vmem_bytes(chip_name: str) -> int:
    """VMEM of one core."""
    found = chip(chip_name)
    return DEFAULT_VMEM_BYTES if found.vmem_bytes is None else found.vmem_bytes // (found.cores_per_chip or 1)


def record(
    form: KvForm, blocks: Blocks | None, kv_heads: int, head_dim: int, pages_per_layer: int, page_tokens: int
) -> KvLayout:
    """The form as a plan records it."""
    heads = ("kv_heads_x_head_dim",) if form.flat else ("kv_heads", "head_dim")
    stored = (form.width,) if form.flat else (form.rows, form.width)
    return KvLayout(
        order=("pages", "page_tokens", *heads),
        pages_per_layer=pages_per_layer,
        page_tokens=page_tokens,
        kv_heads=kv_heads,
        head_dim=head_dim,
        stored=stored,
        scales="float32" if form.scale_rows else None,
        kernel=form.kernel,
        pages_per_block=blocks.pages if blocks and form.kernel else None,
        queries_per_block=blocks.queries if blocks else None,
        vmem_bytes=blocks.vmem_bytes if blocks else None,
        pinned=form.lanes > 1 and form.kernel != "ragged_paged_attention",
    )


def kv_layout_text(layout: KvLayout) -> str:
    """The layout on one line."""
    kept = f"{layout.pages_per_layer} pages of {layout.page_tokens} tokens a layer, {layout.kv_heads} KV "
    kept += f"{'head' if layout.kv_heads == 1 else 'heads'} of {layout.head_dim}"
    if layout.padded:
        kept += f" stored as {' x '.join(map(str, layout.stored))}"
    if layout.scales:
        kept += ", a scale for each token and head"
    return f"{kept}; read by {layout.kernel.replace('_', ' ') if layout.kernel else 'plain JAX'}"
