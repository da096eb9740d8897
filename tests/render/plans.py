"""Plans written from rule tables, for tests of rendered packages: no solver, no prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from planner.plan.schema import (
    Collective,
    Generate,
    GenerateRules,
    Hbm,
    Mesh,
    MeshAxis,
    Plan,
    Prefill,
    PrefillRules,
    Proof,
    Service,
    Strategy,
)

SMOLLM2: dict[str, Any] = {
    "family": "llama",
    "layers": 30,
    "d_model": 576,
    "d_ff": 1536,
    "q_heads": 9,
    "kv_heads": 3,
    "head_dim": 64,
    "vocab": 49152,
    "tied_embeddings": True,
    "norm_eps": 1e-5,
    "rope": {"theta": 100000.0, "scaling": None},
}
LLAMA_70B: dict[str, Any] = {
    "family": "llama",
    "layers": 80,
    "d_model": 8192,
    "d_ff": 28672,
    "q_heads": 64,
    "kv_heads": 8,
    "head_dim": 128,
    "vocab": 128256,
    "tied_embeddings": False,
    "norm_eps": 1e-5,
    "rope": {
        "theta": 500000.0,
        "scaling": {
            "type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_positions": 8192,
        },
    },
}
TINY: dict[str, Any] = {
    "family": "llama",
    "layers": 2,
    "d_model": 64,
    "d_ff": 96,
    "q_heads": 8,
    "kv_heads": 4,
    "head_dim": 16,
    "vocab": 256,
    "tied_embeddings": False,
    "norm_eps": 1e-5,
    "rope": {"theta": 10000.0, "scaling": None},
}
BYTES = {"float32": 4, "bf16": 2, "int8": 1}


@dataclass(frozen=True)
class Case:
    """A plan in short: the model, the mesh axes (name -> size), the two tables, and the service's sizes."""

    name: str
    mesh: Mapping[str, int]
    generate: GenerateRules
    prefill: PrefillRules
    model: Mapping[str, Any] = field(default_factory=lambda: SMOLLM2)
    weights: str = "float32"
    activations: str = "float32"
    kv_cache: str = "float32"
    chip: str = "cpu"
    slice: str = "2x4"
    batch: int = 8
    context: int = 256
    page_tokens: int = 16
    buckets: tuple[int, ...] = (32, 64, 128)
    smallest_shard: int = 1

    def ways(self, axes: Sequence[str]) -> int:
        """Chips along `axes`."""
        return prod(self.mesh[axis] for axis in axes)


def make_plan(case: Case) -> Plan:
    """The plan of `case`, with its planned collectives and made-up prices."""
    strategy = Strategy(attention="?", kv_cache="?", mlp="?", vocab="?")
    model = {
        **case.model,
        "weights": {"dtype": case.weights},
        "activations": {"dtype": case.activations},
        "kv_cache": {"dtype": case.kv_cache, "page_tokens": case.page_tokens},
    }
    common: dict[str, Any] = {"strategy": strategy, "step_s": 0.0125, "binds": "hbm", "parts": ()}
    prefill = Prefill(
        rules=case.prefill,
        tokens=case.buckets[-1],
        buckets=case.buckets,
        collectives=prefill_collectives(case, case.buckets[-1]),
        **common,
    )
    generate = Generate(
        rules=case.generate,
        batch=case.batch,
        context=case.context,
        page_tokens=case.page_tokens,
        collectives=generate_collectives(case),
        **common,
    )
    return Plan(
        format_version="1.0",
        name=case.name,
        spec={"version": 1, "name": case.name, "model": model},
        chip=case.chip,
        slice=case.slice,
        mesh=_mesh(case),
        prefill=prefill,
        generate=generate,
        padding=(),
        hbm=Hbm(**dict.fromkeys(Hbm.model_fields, 0)),
        service=Service(ttft_s=0.1, tpot_s=0.01, tokens_per_s=100, chip_seconds_per_million_tokens=80000),
        proof=Proof(status="OPTIMAL", objective="cost", value=1, bound=1, candidates=1, solved=1),
        accuracy="made up",
    )


def _mesh(case: Case) -> Mesh:
    """Mesh axes named x, y or, as pieces of one, y0 (major) and y1 (minor); chips in C order over them."""
    names = list(case.mesh)
    torus = [name[0] for name in names]
    strides = [
        prod(case.mesh[later] for later in names[i + 1 :] if later[0] == name[0]) for i, name in enumerate(names)
    ]
    axes = tuple(
        MeshAxis(name=name, size=case.mesh[name], torus_axis=name[0], stride=stride)
        for name, stride in zip(names, strides, strict=True)
    )
    chips = []
    for place in product(*(range(size) for size in case.mesh.values())):
        at = dict.fromkeys(sorted(set(torus)), 0)
        for index, axis, stride in zip(place, torus, strides, strict=True):
            at[axis] += index * stride
        chips.append(tuple(at.values()))
    return Mesh(axes=axes, chips=tuple(chips))


def _without(axes: Sequence[str], removed: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in axes if axis not in removed)


def _shared(axes: Sequence[str], kept: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in axes if axis in kept)


class _Planned:
    """Collects planned collectives; sizes are elements per chip."""

    def __init__(self, case: Case) -> None:
        self.case, self.found = case, list[Collective]()
        self.act = BYTES[case.activations]

    def add(self, address: str, kind: Any, axes: Sequence[str], size: float, count: int) -> None:
        if axes:
            self.found.append(
                Collective(address=address, kind=kind, axes=tuple(axes), bytes=round(size), count=count, seconds=0.0)
            )

    def all_reduce(self, address: str, axes: Sequence[str], size: float, count: int) -> None:
        """One over all axes."""
        self.add(address, "all_reduce", axes, size, count)

    def gather(self, address: str, axes: Sequence[str], size: float, count: int) -> float:
        """Minor axis first; `size` is the shard's, the result the gathered."""
        for axis in reversed(axes):
            size *= self.case.mesh[axis]
            self.add(address, "all_gather", (axis,), size, count)
        return size

    def scatter(self, address: str, axes: Sequence[str], size: float, count: int) -> float:
        """Major axis first; `size` is the whole's, the result the shard's."""
        for axis in axes:
            self.add(address, "reduce_scatter", (axis,), size, count)
            size /= self.case.mesh[axis]
        return size

    def rows_scattered(
        self, address: str, d_model: Sequence[str], rows_over: Sequence[str], rows: int, width: float
    ) -> tuple[str, ...]:
        """Scatter rows over those axes that leave enough rows, sum over the rest at once; the scattered axes."""
        scattered: tuple[str, ...] = ()
        left = rows
        for axis in rows_over:
            ways = self.case.mesh[axis]
            if left % ways or left // ways < self.case.smallest_shard:
                break
            left //= ways
            scattered += (axis,)
        size = self.scatter(address, scattered, rows * width * self.act, self.case.model["layers"])
        self.all_reduce(address, _without(d_model, scattered), size, self.case.model["layers"])
        return scattered


def _heads(case: Case) -> tuple[int, int, int]:
    """(stored query heads, KV heads per chip, query heads per chip)."""
    rules = case.generate
    ky, shares = case.ways(rules.kv_heads), case.ways(rules.q_heads) // case.ways(rules.kv_heads)
    kl = -(-case.model["kv_heads"] // ky)
    m = -(-kl * (case.model["q_heads"] // case.model["kv_heads"]) // shares)
    return ky * m * shares, kl, m


def generate_collectives(case: Case) -> tuple[Collective, ...]:
    """What the generate step exchanges, from the rule table."""
    rules, plan, model = case.generate, _Planned(case), case.model
    layers, head_dim, batch = model["layers"], model["head_dim"], case.batch
    d = model["d_model"] / case.ways(rules.d_model)
    f = -(-model["d_ff"] // case.ways(rules.d_ff))
    _, kl, m = _heads(case)
    xs, xb = _shared(rules.batch, rules.d_model), _shared(rules.batch, rules.q_heads)
    plan.all_reduce("generate.embedding.lookup", rules.vocab, batch * model["d_model"] * plan.act, 1)
    plan.all_reduce("generate.attention.norm", rules.d_model, batch * 4, layers)
    if xb:
        plan.rows_scattered("generate.attention.q", rules.d_model, xs, batch, m * head_dim)
        plan.rows_scattered("generate.attention.kv", rules.d_model, xs, batch // case.ways(xb), 2 * kl * head_dim)
        traded = batch // case.ways(xs) * m * head_dim * plan.act
        plan.add("generate.attention.q_to_batch", "all_to_all", xb, traded, layers)
        plan.add("generate.attention.o_to_heads", "all_to_all", xb, traded, layers)
    else:
        plan.rows_scattered("generate.attention.qkv", rules.d_model, xs, batch, (m + 2 * kl) * head_dim)
    plan.gather("generate.attention.o_rows", xs, batch // case.ways(xs) * m * head_dim * plan.act, layers)
    plan.all_reduce("generate.attention.out", rules.q_heads, batch * d * plan.act, layers)
    plan.all_reduce("generate.mlp.norm", rules.d_model, batch * 4, layers)
    rows_over = rules.d_model if batch % case.ways(rules.d_model) == 0 else ()
    scattered = plan.rows_scattered("generate.mlp.hidden", rules.d_model, rows_over, batch, 2 * f)
    plan.gather("generate.mlp.hidden_rows", scattered, batch / case.ways(scattered) * f * plan.act, layers)
    plan.all_reduce("generate.mlp.out", rules.d_ff, batch * d * plan.act, layers)
    _logits(plan, "generate", rules.d_model, batch)
    return tuple(plan.found)


def _logits(plan: _Planned, phase: str, d_model: tuple[str, ...], rows: int) -> None:
    case, vocab = plan.case, plan.case.generate.vocab
    plan.all_reduce(f"{phase}.logits.norm", d_model, rows * 4, 1)
    plan.gather(f"{phase}.logits.residual", d_model, rows * case.model["d_model"] / case.ways(d_model) * plan.act, 1)
    local = -(-case.model["vocab"] // case.ways(vocab))
    offers = rows * min(64, local) * 2 * 4
    if case.ways(vocab) <= 16:
        plan.add(f"{phase}.sampling.candidates", "all_gather", vocab, offers * case.ways(vocab), 1)
    else:
        plan.gather(f"{phase}.sampling.candidates", vocab, offers, 1)


def prefill_collectives(case: Case, tokens: int) -> tuple[Collective, ...]:
    """What the prefill step of a bucket exchanges, from the rule tables."""
    rules, stored, plan, model = case.prefill, case.generate, _Planned(case), case.model
    layers, head_dim, d = model["layers"], model["head_dim"], model["d_model"]
    own = tokens // case.ways(rules.tokens)
    size: float = tokens * d * plan.act
    for axis in rules.tokens:
        if axis in rules.vocab:
            plan.add("prefill.embedding.lookup", "reduce_scatter", (axis,), size, 1)
        size /= case.mesh[axis]
    plan.all_reduce("prefill.embedding.lookup", _without(rules.vocab, rules.tokens), size, 1)
    local_d = d / case.ways(rules.d_model)
    n_stored, kl, _ = _heads(case)
    heads = n_stored // case.ways(rules.q_heads)
    kv_heads = 2 * kl * case.ways(_without(stored.kv_heads, rules.kv_heads))
    ta, ts = _without(rules.tokens, rules.q_heads), _shared(rules.tokens, rules.q_heads)
    rows = tokens // case.ways(ta)
    plan.all_reduce("prefill.attention.norm", rules.d_model, own * 4, layers)
    plan.gather("prefill.attention.tokens", ts, own * local_d * plan.act, layers)
    _weight_gathers(plan)
    size = plan.scatter("prefill.attention.q", rules.d_model, rows * heads * head_dim * plan.act, layers)
    kv_size = rows * kv_heads * head_dim * plan.act
    plan.all_reduce("prefill.attention.kv", rules.d_model, kv_size, layers)
    plan.gather("prefill.attention.kv_tokens", ta, kv_size, layers)
    plan.gather("prefill.attention.o_tokens", rules.d_model, size, layers)
    size = plan.scatter("prefill.attention.out", ts, rows * local_d * plan.act, layers)
    plan.all_reduce("prefill.attention.out", _without(rules.q_heads, rules.tokens), size, layers)
    tm = _shared(rules.tokens, rules.d_ff)
    rows = tokens // case.ways(_without(rules.tokens, rules.d_ff))
    f = -(-model["d_ff"] // case.ways(stored.d_ff)) * case.ways(_without(stored.d_ff, rules.d_ff))
    plan.all_reduce("prefill.mlp.norm", rules.d_model, own * 4, layers)
    plan.gather("prefill.mlp.tokens", tm, own * local_d * plan.act, layers)
    scattered = plan.rows_scattered("prefill.mlp.hidden", rules.d_model, rules.d_model, rows, 2 * f)
    plan.gather("prefill.mlp.hidden_rows", scattered, rows / case.ways(scattered) * f * plan.act, layers)
    size = plan.scatter("prefill.mlp.out", tm, rows * local_d * plan.act, layers)
    plan.all_reduce("prefill.mlp.out", _without(rules.d_ff, rules.tokens), size, layers)
    plan.all_reduce("prefill.logits.last", rules.tokens, local_d * plan.act, 1)
    _logits(plan, "prefill", rules.d_model, 1)
    return tuple(plan.found)


def _weight_gathers(plan: _Planned) -> None:
    case, model, stored, rules = plan.case, plan.case.model, plan.case.generate, plan.case.prefill
    n_stored, kl, _ = _heads(case)
    sizes = {
        "q_heads": n_stored,
        "kv_heads": 2 * kl * case.ways(stored.kv_heads),
        "d_model": model["d_model"],
        "d_ff": -(-model["d_ff"] // case.ways(stored.d_ff)) * case.ways(stored.d_ff),
    }
    shapes = {
        "attention.gather_w_q": (("d_model", "q_heads"), model["head_dim"]),
        "attention.gather_w_kv": (("d_model", "kv_heads"), model["head_dim"]),
        "attention.gather_w_o": (("d_model", "q_heads"), model["head_dim"]),
        "mlp.gather_w_in": (("d_model", "d_ff"), 2),
        "mlp.gather_w_down": (("d_model", "d_ff"), 1),
    }
    scales = {
        "attention.gather_w_q_scale": (("q_heads",), model["head_dim"]),
        "attention.gather_w_kv_scale": (("kv_heads",), model["head_dim"]),
        "attention.gather_w_o_scale": (("d_model",), 1),
        "mlp.gather_w_in_scale": (("d_ff",), 2),
        "mlp.gather_w_down_scale": (("d_model",), 1),
    }
    for arrays, width in ((shapes, BYTES[case.weights]), (scales if case.weights == "int8" else {}, 4)):
        for address, (dims, inner) in arrays.items():
            size: float = inner * width * prod(sizes[dim] / case.ways(getattr(stored, dim)) for dim in dims)
            for dim in dims:
                size = plan.gather(
                    f"prefill.{address}", _without(getattr(stored, dim), getattr(rules, dim)), size, model["layers"]
                )
