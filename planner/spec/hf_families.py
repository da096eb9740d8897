"""Fields of a Hugging Face config.json -> the sizes of a model section, family by family."""

from collections.abc import Callable, Mapping

from planner.spec.hf_reader import ConfigReader

Sizes = dict[str, object]
Family = Callable[[ConfigReader], Sizes]


def _common(config: ConfigReader) -> Sizes:
    """The sizes that most families name alike."""
    return {
        "layers": config.count("num_hidden_layers"),
        "d_model": config.count("hidden_size"),
        "d_ff": config.count("intermediate_size"),
        "q_heads": config.count("num_attention_heads"),
        "kv_heads": config.count("num_key_value_heads", config.count("num_attention_heads")),
        "head_dim": _head_dim(config),
        "vocab": config.count("vocab_size"),
        "max_positions": config.count("max_position_embeddings"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "norm_eps": config.real("rms_norm_eps"),
        "activation": config.word("hidden_act", "silu"),
        "rope": _rope(config),
    }


def _head_dim(config: ConfigReader) -> int:
    """The width of a head: written, or hidden size over heads."""
    if config.get("head_dim") is not None:
        return config.count("head_dim")
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    if hidden % heads:
        config.report("num_attention_heads", f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}")
    return max(1, hidden // heads)


def _rope(config: ConfigReader) -> Sizes:
    """Rotary embedding, in the old spelling (rope_theta, rope_scaling) or the new one (rope_parameters)."""
    parameters = config.mapping("rope_parameters")
    if parameters and (nested := parameters.mapping("full_attention")):
        parameters = nested
    theta = config.real("rope_theta", 10000.0)
    if parameters:
        theta = parameters.real("rope_theta", theta)
    scaling = _rope_scaling(parameters or config.mapping("rope_scaling"))
    return {"theta": theta, **({"scaling": scaling} if scaling else {})}


def _rope_scaling(scaling: ConfigReader | None) -> Sizes | None:
    """The stretching of rotary frequencies, None for none."""
    if scaling is None:
        return None
    kind = scaling.word("rope_type" if scaling.get("rope_type") is not None else "type", "default")
    kind = {"su": "longrope"}.get(kind, kind)
    if kind == "default":
        return None
    known = ("llama3", "linear", "dynamic", "yarn", "longrope")
    if kind not in known:
        scaling.report("rope_type", f'rope scaling "{kind}" is none of {", ".join(known)}')
        return None
    sizes: Sizes = {"type": kind}
    reals = ("factor", "low_freq_factor", "high_freq_factor") if kind == "llama3" else ("factor",)
    sizes |= {name: scaling.real(name) for name in reals if kind == "llama3" or scaling.get(name) is not None}
    if kind == "llama3" or scaling.get("original_max_position_embeddings") is not None:
        sizes["original_max_positions"] = scaling.count("original_max_position_embeddings")
    return sizes


def _whole_rotation(config: ConfigReader) -> None:
    """Refuses heads of which only a part is rotated: the packaged arithmetic turns all of a head."""
    if config.real("partial_rotary_factor", 1.0) != 1.0:
        config.report("partial_rotary_factor", "partial_rotary_factor must be 1: heads are rotated whole")


def _windows(config: ConfigReader, tokens: str, full_every: int | None) -> Sizes:
    """The limited layers: those `layer_types` lists, else all but every `full_every`-th; empty for none."""
    if config.get(tokens) is None:
        return {}
    kinds = [kind == "full_attention" for kind in config.items("layer_types")]
    if kinds and len(kinds) != config.count("num_hidden_layers"):
        config.report("layer_types", f"layer_types lists {len(kinds)} of {config.count('num_hidden_layers')} layers")
    elif kinds:
        first = kinds.index(True) + 1 if True in kinds else None
        full_every = first
        if any(full != (first is not None and i % first == 0) for i, full in enumerate(kinds, start=1)):
            config.report("layer_types", "layer_types is not a pattern of every n-th layer with full attention")
    if full_every == 1:
        return {}
    limit: Sizes = {"tokens": config.count(tokens)}
    return {"sliding_window": limit | ({"full_every": full_every} if full_every else {})}


def llama(config: ConfigReader) -> Sizes:
    """Llama: rotary GQA, gated SiLU, RMS norms, no biases unless asked for."""
    bias = config.flag("attention_bias")
    _whole_rotation(config)
    return {**_common(config), "qkv_bias": bias, "out_bias": bias, "mlp_bias": config.flag("mlp_bias")}


def mistral(config: ConfigReader) -> Sizes:
    """Mistral: Llama with every layer limited to a window, where there is one."""
    _whole_rotation(config)
    return {**_common(config), **_windows(config, "sliding_window", None)}


def mixtral(config: ConfigReader) -> Sizes:
    """Mixtral: Mistral with experts of the written width in every layer."""
    moe = {
        "experts": config.count("num_local_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "d_ff": config.count("intermediate_size"),
    }
    return {**mistral(config), "moe": moe}


def qwen2(config: ConfigReader) -> Sizes:
    """Qwen 2 and 2.5: Llama with biases on query, key and value."""
    config.get("attention_bias")
    return {**_common(config), "qkv_bias": True, **_qwen_windows(config)}


def qwen3(config: ConfigReader) -> Sizes:
    """Qwen 3: norms on query and key heads instead of biases."""
    bias = config.flag("attention_bias")
    return {**_common(config), "qk_norm": True, "qkv_bias": bias, "out_bias": bias, **_qwen_windows(config)}


def qwen3_moe(config: ConfigReader) -> Sizes:
    """Qwen 3 with experts in every `decoder_sparse_step`-th layer, but those listed as dense."""
    layers, step = config.count("num_hidden_layers"), config.count("decoder_sparse_step")
    listed = {layer for layer in config.items("mlp_only_layers") if isinstance(layer, int)}
    sparse = layers // step - sum((layer + 1) % step == 0 and 0 <= layer < layers for layer in listed)
    moe = {
        "experts": config.count("num_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "d_ff": config.count("moe_intermediate_size"),
        "dense_layers": layers - sparse,
    }
    return {**qwen3(config), "moe": moe}


def _qwen_windows(config: ConfigReader) -> Sizes:
    """Layers from `max_window_layers` on are limited, where `use_sliding_window` says so."""
    if not config.flag("use_sliding_window"):
        config.seen |= {"sliding_window", "max_window_layers", "layer_types"}
        return {}
    layers, full = config.count("num_hidden_layers"), config.natural("max_window_layers")
    if not config.items("layer_types") and 0 < full < layers:
        config.report(
            "max_window_layers", f"a window from layer {full} of {layers} on is not a pattern that is handled"
        )
    return {} if full >= layers else _windows(config, "sliding_window", None)


def phi3(config: ConfigReader) -> Sizes:
    """Phi 3 and 4: Llama with fused projections in the checkpoint."""
    config.get("attention_bias")
    return {**_common(config), **_windows(config, "sliding_window", None)}


def gemma2(config: ConfigReader) -> Sizes:
    """Gemma 2: norms before and after, every second layer limited."""
    return {**_gemma(config), **_windows(config, "sliding_window", 2)}


def gemma3_text(config: ConfigReader) -> Sizes:
    """Gemma 3: norms on query and key heads too, five limited layers to a full one."""
    return {
        **_gemma(config),
        "qk_norm": True,
        **_windows(config, "sliding_window", config.count("sliding_window_pattern")),
    }


def _gemma(config: ConfigReader) -> Sizes:
    bias = config.flag("attention_bias")
    activation = config.word("hidden_activation")
    return {**_common(config), "activation": activation, "post_norms": True, "qkv_bias": bias, "out_bias": bias}


def gpt_oss(config: ConfigReader) -> Sizes:
    """gpt-oss: experts with biases, attention with biases and sinks, every second layer limited."""
    bias = config.flag("attention_bias")
    moe = {
        "experts": config.count("num_local_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "d_ff": config.count("intermediate_size"),
        "router_bias": True,
    }
    return {
        **_common(config),
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": True,
        "attention_sinks": True,
        **_windows(config, "sliding_window", 2),
        "moe": moe,
    }


def llama4_text(config: ConfigReader) -> Sizes:
    """Llama 4: one shared expert, chunked attention but in every fourth layer; its head norms hold no weights."""
    layers, step = config.count("num_hidden_layers"), config.count("interleave_moe_layer_step")
    bias = config.flag("attention_bias")
    moe = {
        "experts": config.count("num_local_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "d_ff": config.count("intermediate_size"),
        "shared_experts": 1,
        "dense_layers": layers - layers // step,
    }
    windows = _windows(config, "attention_chunk_size", config.count("no_rope_layer_interval"))
    sizes: Sizes = {**_common(config), "d_ff": config.count("intermediate_size_mlp")}
    return {**sizes, "qkv_bias": bias, "out_bias": bias, **windows, "moe": moe}


def deepseek_v3(config: ConfigReader) -> Sizes:
    """DeepSeek V3 and R1: latent attention; the first layers dense, then shared and routed experts."""
    if config.flag("attention_bias"):
        config.report("attention_bias", "attention_bias is not handled with latent attention")
    nope, rope = config.count("qk_nope_head_dim"), config.count("qk_rope_head_dim")
    heads = config.count("num_attention_heads")
    mla: Sizes = {
        "kv_rank": config.count("kv_lora_rank"),
        "rope_head_dim": rope,
        "nope_head_dim": nope,
        "v_head_dim": config.count("v_head_dim"),
    }
    if config.get("q_lora_rank") is not None:
        mla["q_rank"] = config.count("q_lora_rank")
    moe = {
        "experts": config.count("n_routed_experts"),
        "experts_per_token": config.count("num_experts_per_tok"),
        "d_ff": config.count("moe_intermediate_size"),
        "shared_experts": config.natural("n_shared_experts"),
        "dense_layers": config.natural("first_k_dense_replace"),
        "router_bias": True,
    }
    return {**_common(config), "kv_heads": heads, "head_dim": nope + rope, "moe": moe, "mla": mla}


def falcon(config: ConfigReader) -> Sizes:
    """Falcon: layer norms, one MLP projection each way, attention and MLP side by side."""
    heads, hidden, bias = config.count("num_attention_heads"), config.count("hidden_size"), config.flag("bias")
    grouped, single = config.flag("new_decoder_architecture"), config.flag("multi_query")
    kv_heads = config.count("num_kv_heads", heads) if grouped else (1 if single else heads)
    config.seen |= {"num_kv_heads"}
    return {
        "layers": config.count("num_hidden_layers"),
        "d_model": hidden,
        "d_ff": config.count("ffn_hidden_size", 4 * hidden),
        "q_heads": heads,
        "kv_heads": kv_heads,
        "head_dim": _head_dim(config),
        "vocab": config.count("vocab_size"),
        "max_positions": config.count("max_position_embeddings"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "norm": "layer",
        "norm_eps": config.real("layer_norm_epsilon"),
        "activation": config.word("activation"),
        "gated_mlp": False,
        "parallel_block": config.flag("parallel_attn") and not grouped,
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": bias,
        "rope": _rope(config),
    }


def palm(config: ConfigReader) -> Sizes:
    """PaLM: multi-query heads, gated MLP and attention side by side, layer norms without bias."""
    return {**_common(config), "activation": "silu", "norm": "layer_no_bias", "parallel_block": True}


FAMILIES: Mapping[str, Family] = {
    family.__name__: family
    for family in (
        deepseek_v3,
        falcon,
        gemma2,
        gemma3_text,
        gpt_oss,
        llama,
        llama4_text,
        mistral,
        mixtral,
        palm,
        phi3,
        qwen2,
        qwen3,
        qwen3_moe,
    )
}
