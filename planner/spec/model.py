"""The model section: the sizes of one transformer, and how its arrays are stored."""

from typing import Literal

from pydantic import Field

from planner.spec.base import Count, Dtype, Dtypes, Flag, Natural, Real, Section


class RopeScaling(Section):
    """How rotary frequencies are stretched beyond the length the model was first trained for."""

    type: Literal["llama3", "linear", "dynamic", "yarn", "longrope"] = Field(description="The rule of stretching.")
    factor: Real | None = Field(default=None, description="How many times longer the stretched context is.")
    low_freq_factor: Real | None = Field(
        default=None, description="llama3: wavelengths above original_max_positions / this are stretched in full."
    )
    high_freq_factor: Real | None = Field(
        default=None, description="llama3: wavelengths below original_max_positions / this are left alone."
    )
    original_max_positions: Count | None = Field(default=None, description="The context, in tokens, before stretching.")


class Rope(Section):
    """Rotary position embedding."""

    theta: Real = Field(default=10000.0, description="The base of the rotary frequencies.")
    scaling: RopeScaling | None = Field(default=None, description="Stretching for long context; absent for none.")


class SlidingWindow(Section):
    """Layers that look back over a limited number of tokens, by window or by chunk."""

    tokens: Count = Field(description="The tokens a limited layer keeps.")
    full_every: Count | None = Field(
        default=None, description="Every n-th layer attends to everything; absent when no layer does."
    )


class Moe(Section):
    """Layers whose MLP is a choice of experts."""

    experts: Count = Field(description="Routed experts in a layer.")
    experts_per_token: Count = Field(description="Routed experts that each token visits.")
    d_ff: Count = Field(description="Hidden width of one expert.")
    shared_experts: Natural = Field(default=0, description="Experts of the same width that every token visits.")
    dense_layers: Natural = Field(default=0, description="Layers that keep a dense MLP of width model.d_ff.")
    router_bias: Flag = Field(default=False, description="Whether the router holds one learned number an expert.")


class Mla(Section):
    """Multi-head latent attention: keys and values are kept as one small latent vector a token."""

    q_rank: Count | None = Field(default=None, description="Width of the query latent; absent for direct queries.")
    kv_rank: Count = Field(description="Width of the key-value latent.")
    rope_head_dim: Count = Field(description="Width of the rotated part of a head, one key for all heads.")
    nope_head_dim: Count = Field(description="Width of the part of a head that is not rotated.")
    v_head_dim: Count = Field(description="Width of a value head.")


class Stored(Section):
    """What is stored in one dtype, or in one of several."""

    dtype: Dtypes = "bf16"

    @property
    def allowed(self) -> tuple[Dtype, ...]:
        """The dtypes that may be chosen, in the order of the spec."""
        return self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)

    @property
    def chosen(self) -> Dtype:
        """The dtype of a spec that leaves no choice."""
        assert not isinstance(self.dtype, tuple), "a choice of dtypes is made before anything is sized by it"
        return self.dtype


class Weights(Stored):
    """How weights are stored."""

    dtype: Dtypes = Field(
        default="bf16",
        description="Stored type of every weight but the norms; of a list the solver takes the best, whatever it does "
        "to answers.",
    )


class Activations(Section):
    """How activations are computed."""

    dtype: Literal["float32", "bf16"] = Field(default="bf16", description="Type of activations between layers.")


class KvCache(Stored):
    """How keys and values are kept."""

    dtype: Dtypes = Field(
        default="bf16", description="Stored type of keys and values; of a list the solver takes the best."
    )
    page_tokens: Count = Field(default=128, description="Tokens in one page of the cache.")


class Model(Section):
    """The sizes of one transformer. `config` takes them from a Hugging Face config.json."""

    family: str = Field(min_length=1, description="Architecture, by the name Hugging Face gives it as model_type.")
    layers: Count = Field(description="Transformer layers (L).")
    d_model: Count = Field(description="Width of the residual stream (D).")
    d_ff: Count = Field(description="Hidden width of the dense MLP (F).")
    q_heads: Count = Field(description="Query heads (N).")
    kv_heads: Count = Field(description="Key and value heads (K).")
    head_dim: Count = Field(description="Width of one head (H).")
    vocab: Count = Field(description="Rows of the embedding table (V).")
    max_positions: Count = Field(description="The longest context, in tokens, that the model was made for.")
    tied_embeddings: Flag = Field(default=False, description="Whether the output matrix is the embedding table.")
    norm: Literal["rms", "layer", "layer_no_bias"] = Field(default="rms", description="Kind of the norms.")
    norm_eps: Real = Field(default=1e-5, description="The small number under the root of the norms.")
    activation: str = Field(default="silu", min_length=1, description="Nonlinearity of the MLP.")
    gated_mlp: Flag = Field(default=True, description="Whether the MLP multiplies two projections.")
    parallel_block: Flag = Field(default=False, description="Whether attention and MLP read the same norm.")
    post_norms: Flag = Field(default=False, description="Whether attention and MLP outputs are normed as well.")
    qk_norm: Flag = Field(default=False, description="Whether query and key heads have learned norms.")
    qkv_bias: Flag = Field(default=False, description="Whether the query, key and value projections have biases.")
    out_bias: Flag = Field(default=False, description="Whether the attention output projection has a bias.")
    mlp_bias: Flag = Field(default=False, description="Whether the MLP or expert projections have biases.")
    attention_sinks: Flag = Field(default=False, description="Whether each query head has a learned sink.")
    rope: Rope = Field(default=Rope(), description="Rotary position embedding.")
    sliding_window: SlidingWindow | None = Field(default=None, description="Limited layers; absent for none.")
    moe: Moe | None = Field(default=None, description="Mixture of experts; absent for dense models.")
    mla: Mla | None = Field(default=None, description="Latent attention; absent for ordinary heads.")
    weights: Weights = Field(default=Weights(), description="How weights are stored.")
    activations: Activations = Field(default=Activations(), description="How activations are computed.")
    kv_cache: KvCache = Field(default=KvCache(), description="How keys and values are kept.")
