"""Strategies drawn from all that the planner may choose, as cases to render: the same for the same number."""

from collections.abc import Iterator
from random import Random
from typing import Any

from planner.plan.schema import CopyRules, GenerateRules, PrefillRules
from planner.problem.options import (
    ROLES,
    STORED_AXES,
    Option,
    merged_rules,
    modes_of,
    stored_as,
    tables_of,
)
from planner.problem.rules import GenerateRules as GenerateTable
from planner.problem.rules import Rules, Ways, copied_kv, padded_heads
from tests.package.cases import FLAT, ODD, SPLIT, XY
from tests.render.plans import TINY, Case

BATCH = 8
STEP_TOKENS = 16
MODELS: tuple[dict[str, Any], ...] = (
    ODD,
    *({**TINY, "q_heads": q_heads, "kv_heads": kv_heads} for q_heads, kv_heads in ((8, 1), (8, 2), (8, 8), (12, 6))),
)


def drawn_case(number: int) -> Case:
    """A legal strategy of a small model: on some mesh, with prompts together, chunks and second copies or without."""
    random = Random(number)
    mesh, model = random.choice((XY, SPLIT, FLAT)), random.choice(MODELS)
    rules = next(each for each in _rules(random, tuple(mesh)) if _legal(each, model, Ways(dict(mesh))))
    copies = {
        block: CopyRules(**{name: getattr(stored, name) for name in STORED_AXES[block]})
        for block, stored in rules.copies.items()
    }
    return Case(
        f"drawn_{number}",
        mesh,
        GenerateRules(**rules.generate._asdict()),
        PrefillRules(**rules.prefill._asdict()),
        model=model,
        batch=BATCH,
        weights=random.choice(("float32", "float32", "int8")),
        prompts=random.choice((1, 1, 2, 4, 8)),
        chunk=random.choice((None, None, STEP_TOKENS)),
        copies=copies or None,
    )


def _rules(random: Random, names: tuple[str, ...]) -> Iterator[Rules]:
    """Tables of options whose blocks agree on the residual stream."""
    while True:
        attention = _option(random, names, "attention", copied=random.random() < 0.4)
        generate, _, prefill = tables_of("attention", names, attention)
        if set(prefill.kv_heads) - set(generate.kv_heads):
            continue  # a chip makes the keys and values that it will keep
        others = [_agreeing(random, names, block, attention) for block in ("mlp", "vocab")]
        if None not in others:
            mlp, vocab = others
            assert mlp is not None
            assert vocab is not None
            yield merged_rules(names, {"attention": attention, "mlp": mlp, "vocab": vocab})


def _option(random: Random, names: tuple[str, ...], block: str, copied: bool) -> Option:
    roles = tuple(random.choice(ROLES[block]) for _ in names)
    stored = tuple(stored_as(random.choice(ROLES[block])) for _ in names) if copied else None
    return Option(roles, tuple(random.choice(modes_of(role)) for role in stored or roles), stored)


def _agreeing(random: Random, names: tuple[str, ...], block: str, with_: Option) -> Option | None:
    copied = block == "mlp" and random.random() < 0.4
    drawn = (_option(random, names, block, copied) for _ in range(2000))
    return next((each for each in drawn if each.residual == with_.residual), None)


def _legal(rules: Rules, model: dict[str, Any], ways: Ways) -> bool:
    """Whether heads, d_model, slots and tokens can be cut so."""
    stored = rules.generate, rules.read("attention"), rules.read("mlp")
    return (
        all(_legal_heads(each, model, ways) for each in stored[:2])
        and all(model["d_model"] % ways(each.d_model) == 0 for each in stored)
        and BATCH % ways(rules.generate.rows + rules.generate.batch) == 0
        and STEP_TOKENS % ways(rules.prefill.tokens + rules.prefill.d_model) == 0
        and (set(rules.prefill.kv_heads) in (set(), set(rules.generate.kv_heads)) or _even(rules, model, ways))
    )


def _legal_heads(stored: GenerateTable, model: dict[str, Any], ways: Ways) -> bool:
    shards = ways(stored.kv_heads)
    heads = padded_heads(model["q_heads"], model["kv_heads"], shards, ways(stored.q_heads) // shards)
    return heads.kv_padded < 2 * model["kv_heads"] and (not copied_kv(stored) or heads.kv_local == 1)


def _even(rules: Rules, model: dict[str, Any], ways: Ways) -> bool:
    """Whether the cache holds as many KV heads on all chips, so that prefill may cut them over some of its axes."""
    return "attention" not in rules.copies or model["kv_heads"] % ways(rules.generate.kv_heads) == 0
