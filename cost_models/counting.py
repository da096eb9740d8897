"""Parameters of a transformer by part, and the operations of a token (scaling-book, transformers.md).

Layers L, model width D, MLP width F, query heads N, KV heads K, head size H, vocabulary V, experts E.
"""


def mlp_parameters(d_model: int, d_ff: int, *, gated: bool = True, experts: int = 1) -> int:
    """Weights of one MLP: 3 * D * F gated, 2 * D * F ungated, times E stored (or active) experts."""
    return (3 if gated else 2) * d_model * d_ff * experts


def attention_parameters(d_model: int, q_heads: int, kv_heads: int, head_dim: int) -> int:
    """Weights of the four projections of one layer: 2 * D * H * (N + K)."""
    return 2 * d_model * head_dim * (q_heads + kv_heads)


def vocabulary_parameters(vocab: int, d_model: int, *, tied: bool) -> int:
    """Weights of the embedding and the output head: V * D tied, 2 * V * D apart."""
    return (1 if tied else 2) * vocab * d_model


def rows_per_replica(sequences: float, tokens_per_sequence: float, replicas: float) -> float:
    """Tokens of a step in each replica of the weights: the B of a roofline, never sequences (roofline.md)."""
    return sequences * tokens_per_sequence / replicas


def flops_per_token(active_parameters: float) -> float:
    """Operations of one forward pass over one token, attention scores left out: 2 * P."""
    return 2 * active_parameters
