"""Shapes of published models that are not plain dense decoders, as their configurations print them."""

from cost_models.blocks import AttentionKind
from cost_models.mla import Latent
from cost_models.moe import Mixture
from cost_models.transformer import Transformer

DEEPSEEK_V3 = Transformer(
    61, 7168, 18432, 128, 128, 192, 129280,
    mixture=Mixture(experts=256, experts_per_token=8, d_ff=2048, shared_d_ff=2048, dense_layers=3),
    latent=Latent(latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128, query_latent_dim=1536),
)  # fmt: skip
QWEN3_30B = Transformer(48, 2048, 6144, 32, 4, 128, 151936, mixture=Mixture(128, 8, 768))
SCOUT = Transformer(
    48, 5120, 16384, 40, 8, 128, 202048,
    mixture=Mixture(16, 1, 8192, shared_d_ff=8192),
    attention=(AttentionKind(36, window=8192), AttentionKind(12)),
)  # fmt: skip
GPT_OSS = Transformer(
    36, 2880, 2880, 64, 8, 64, 201088,
    mixture=Mixture(128, 4, 2880),
    attention=(AttentionKind(18, window=128), AttentionKind(18)),
)  # fmt: skip
GEMMA3_27B = Transformer(
    62, 5376, 21504, 32, 16, 128, 262208, attention=(AttentionKind(52, window=1024), AttentionKind(10))
)  # fmt: skip
SHARING = Transformer(
    30, 2048, 8192, 8, 2, 256, 262144,
    attention=(AttentionKind(16, 512), AttentionKind(4), AttentionKind(8, 512, False), AttentionKind(2, None, False)),
)  # fmt: skip
"""Made up in the manner of Gemma 3n: the last third of the layers reads caches of earlier ones."""
