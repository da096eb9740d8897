"""Plans near earlier ones: what moves is counted element by element, and what need not move does not."""

from fractions import Fraction
from math import ceil, prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.commands import PlanRequest, plan_command
from planner.errors import CannotRun, PlanFileError
from planner.explain import shadows_of
from planner.explain.why_not import why_not
from planner.plan.file import plan_from_yaml, plan_to_yaml, read_plan, write_text
from planner.plan.make import plan_of, solve_spec
from planner.plan.moves import Boxes, Places, received_bytes
from planner.plan.near import BYTES_PRICE, Earlier, read_earlier, with_changes
from planner.plan.schema import Plan
from planner.plan.show import proof_text
from planner.problem.build import batches_of
from planner.problem.rules import GenerateRules
from planner.problem.sizes import Sizes
from planner.spec import Spec, load_spec
from tests.plans_of import SPECS, example_plan

SMOLLM2, L70B = "smollm2_135m_cpu8", "llama_3_1_70b_v5e_4x4"
TINY = Sizes(
    layers=1, d_model=8, d_ff=12, q_heads=12, kv_heads=3, head_dim=1, vocab=10, tied=True,
    weight_bytes=1, scale_bytes=0, activation_bytes=2, kv_bytes=2, compute_dtype="bf16",
)  # fmt: skip
CHIPS = tuple((x, y) for x in range(2) for y in range(4))
MESHES = (
    Places({"x": 2, "y": 4}, CHIPS),
    Places({"x": 2, "y0": 2, "y1": 2}, CHIPS),
    Places({"y": 4, "x": 2}, tuple((x, y) for y in range(4) for x in range(2))),
)


@st.composite
def stored(draw) -> Boxes:
    """A legal way to store the tiny model on eight chips."""
    places = draw(st.sampled_from(MESHES))
    axes = draw(st.permutations(list(places.axes)))
    roles = [draw(st.sampled_from(["none", "d_model", "kv_heads", "copied"])) for _ in axes]
    widths = [draw(st.sampled_from(["none", "d_ff"])) for _ in axes]
    d_model = tuple(a for a, role in zip(axes, roles, strict=True) if role == "d_model")
    kv_heads = tuple(a for a, role in zip(axes, roles, strict=True) if role == "kv_heads")
    copied = tuple(a for a, role in zip(axes, roles, strict=True) if role == "copied")
    d_ff = tuple(a for a, w in zip(axes, widths, strict=True) if w == "d_ff" and a not in d_model)
    vocab = tuple(a for a in axes if draw(st.booleans()))
    return Boxes(
        GenerateRules(d_model=d_model, q_heads=kv_heads + copied, kv_heads=kv_heads, d_ff=d_ff, vocab=vocab),
        TINY,
        places,
    )


def part_of(boxes: Boxes, chip: tuple[int, ...], axes: tuple[str, ...]) -> int:
    """A chip's part of an array cut over `axes`, by looking its place up in the mesh."""
    index = boxes.places.chips.index(chip)
    place = {}
    for axis, size in reversed(boxes.places.axes.items()):
        index, place[axis] = divmod(index, size)
    part = 0
    for axis in axes:
        part = part * boxes.places.axes[axis] + place[axis]
    return part


def elements(boxes: Boxes, chip: tuple[int, ...], block: str) -> set[tuple[object, ...]]:
    """The names of the elements of a block's weights that a chip holds, one by one."""
    rules, sizes, places = boxes.rules, boxes.sizes, boxes.places
    ways = {name: prod(places.axes[a] for a in getattr(rules, name)) for name in rules._fields}

    def equal(size: int, name: str) -> list[int]:
        width, part = ceil(size / ways[name]), part_of(boxes, chip, getattr(rules, name))
        return [i for i in range(part * width, (part + 1) * width) if i < size]

    rows = equal(sizes.d_model, "d_model")
    if block == "mlp":
        return {(name, f, d) for name in ("gate", "up", "down") for f in equal(sizes.d_ff, "d_ff") for d in rows}
    if block == "vocab":
        return {("embedding", v, d) for v in equal(sizes.vocab, "vocab") for d in range(sizes.d_model)}
    kv = equal(sizes.kv_heads, "kv_heads")
    own = part_of(boxes, chip, tuple(a for a in rules.q_heads if a not in rules.kv_heads))
    shares = ways["q_heads"] // ways["kv_heads"]
    group = sizes.q_heads // sizes.kv_heads
    width = ceil(ceil(sizes.kv_heads / ways["kv_heads"]) * group / shares)
    served = [head * group + i for head in kv for i in range(group)]
    q = served[own * width : (own + 1) * width]
    return {(n, h, d) for n in ("q", "o") for h in q for d in rows} | {
        (n, h, d) for n in ("k", "v") for h in kv for d in rows
    }


@settings(max_examples=200, deadline=None)
@given(stored(), stored())
def test_received_bytes_equal_the_elements_that_a_chip_lacks(new: Boxes, old: Boxes) -> None:
    for block in TINY.blocks:
        lacking = [len(elements(new, chip, block) - elements(old, chip, block)) for chip in CHIPS]
        assert received_bytes(block, new, old) == max(lacking)
        assert received_bytes(block, new) == max(len(elements(new, chip, block)) for chip in CHIPS)
        assert received_bytes(block, new, new) == 0


def spec(name: str, *overrides: str) -> Spec:
    return load_spec(SPECS / f"{name}.yaml", overrides)


def near(old: Plan, wanted: Spec, within: float = 0.01) -> Plan:
    earlier = Earlier.of(old, "old.yaml", within)
    return plan_of(solve_spec(wanted, earlier), earlier)


CASES = [
    (SMOLLM2, [], ["workload.concurrency=12"], 0.3),
    (SMOLLM2, ["pins.generate.mlp=2d"], [], 0.05),
    (SMOLLM2, ["pins.generate.kv_cache=batch"], [], 0.01),
    (L70B, ["pins.generate.mlp=2d"], [], 0.01),
    (L70B, ["pins.generate.mlp=2d"], [], 0.1),
    (L70B, ["hardware.slice=2x4"], ["hardware.slices=[2x4, 4x4]", "limits.tpot=20 ms"], 0.2),
    (L70B, [], ["model.weights.dtype=bf16"], 0.01),
]


@pytest.mark.parametrize(("name", "before", "after", "within"), CASES, ids=str)
def test_the_near_plan_keeps_its_tolerance_and_moves_no_more_than_the_optimum(name, before, after, within):
    old, wanted = example_plan(name, *before), spec(name, *after)
    plan, optimum = near(old, wanted, within), example_plan(name, *after)
    proof = plan.proof
    assert proof.bound == optimum.proof.value <= proof.value <= (1 + Fraction(str(within))) * proof.bound
    assert proof.status == ("OPTIMAL" if proof.value == proof.bound else "NEAR")
    zero = near(old, wanted, 0.0)
    assert zero.proof.status == "OPTIMAL"
    assert proof.near.moved_bytes <= zero.proof.near.moved_bytes
    assert plan_from_yaml(plan_to_yaml(plan), "plan") == plan_from_yaml(plan_to_yaml(near(old, wanted, within)), "plan")


@pytest.mark.parametrize(
    ("before", "within", "kept"),
    [(["pins.generate.mlp=2d"], 2.0, True), (["pins.generate.mlp=2d"], 0.0, False), ([], 0.01, True)],
    ids=str,
)
def test_an_old_layout_that_is_good_enough_is_kept_whole(before, within, kept):
    old = example_plan(L70B, *before)
    plan = near(old, spec(L70B), min(within, 0.99))
    same = (plan.slice, plan.mesh, plan.generate.batch) == (old.slice, old.mesh, old.generate.batch)
    same = same and plan.generate.rules == old.generate.rules and plan.prefill.rules == old.prefill.rules
    assert same == kept
    assert (plan.proof.near.moved_bytes == 0 and plan.proof.near.changed == ()) == kept
    assert ("kept the layout of old.yaml: " in proof_text(plan)) == kept


def test_the_plan_itself_is_the_option_that_changes_nothing():
    wanted = spec(SMOLLM2)
    solved, old = solve_spec(wanted), example_plan(SMOLLM2)
    problem = with_changes(solved.built, Earlier.of(old, "old.yaml"))
    taken = solved.optimum.taken
    table = problem.meshes[taken.candidate.mesh_index]
    at = taken.candidate.batch_index
    assert sum(table.blocks[c.block].change_of(c.index, at) for c in taken.choices) == 0
    for mesh in problem.meshes:
        for block in mesh.blocks:
            assert (block.change >= 0).all()
    others = [mesh for mesh in problem.meshes if mesh.mesh != table.mesh]
    assert all((mesh.blocks[0].change > 0).all() for mesh in others)
    assert BYTES_PRICE > 4 * 4 + 2


def test_an_old_batch_that_is_no_candidate_of_the_spec_can_be_kept():
    old, wanted = example_plan(L70B, "workload.concurrency=20"), spec(L70B, "workload.concurrency=40")
    assert old.generate.batch == 20
    assert 20 not in batches_of(wanted)
    plan = near(old, wanted, 0.99)
    assert (plan.generate.batch, plan.proof.near.changed) == (20, ())
    assert shadows_of(plan) is not None
    (found,) = why_not(plan, ("generate.batch=40",))
    cheaper = example_plan(L70B, "workload.concurrency=40", "pins.generate.batch=40")
    costs = [each.service.chip_seconds_per_million_tokens for each in (cheaper, plan)]
    assert found.ratio == pytest.approx(costs[0] / costs[1], rel=2e-3)
    assert batches_of(spec(L70B, "objective=latency"), 20) == (32,)
    assert batches_of(spec(L70B, "pins.generate.batch=8"), 20) == (8,)
    assert batches_of(spec(L70B), 64) == batches_of(spec(L70B))


def test_weights_in_another_dtype_all_move():
    plan = near(example_plan(L70B, "model.weights.dtype=bf16"), spec(L70B), 0.99)
    sizes = plan.hbm.weights
    assert plan.proof.near.moved_bytes == pytest.approx(sizes, rel=0.01)


def test_a_plan_of_another_model_is_refused_by_name():
    with pytest.raises(
        PlanFileError, match=r"old\.yaml is a plan of another model: its layers is 30, and the spec's is 80"
    ):
        near(example_plan(SMOLLM2), spec(L70B))


@pytest.mark.parametrize("within", ["", "2x", "-1%", "150 %", "nan"])
def test_a_wrong_tolerance_says_what_is_right(tmp_path: Path, within: str):
    path = tmp_path / "plan.yaml"
    write_text(path, plan_to_yaml(example_plan(SMOLLM2)))
    with pytest.raises(CannotRun, match=r"write 1% or 0\.01"):
        read_earlier(path, within)
    assert read_earlier(path, "2 %").within == read_earlier(path, "0.02").within == Fraction(1, 50)
    assert read_earlier(path, None).within == Fraction(1, 100)


def test_the_command_writes_the_near_plan_over_the_old_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "plan.yaml"
    old = example_plan(SMOLLM2, "pins.generate.mlp=2d")
    write_text(path, plan_to_yaml(old))
    assert plan_command(SPECS / f"{SMOLLM2}.yaml", (), "text", PlanRequest(written=path, near=path, within="90%")) == 0
    assert "near: kept the layout of plan.yaml: " in capsys.readouterr().out
    written = read_plan(path)
    assert written.generate.rules == old.generate.rules
    assert written.proof.near.plan == "plan.yaml"
    with pytest.raises(CannotRun, match="give --near PLAN"):
        plan_command(SPECS / f"{SMOLLM2}.yaml", (), "text", PlanRequest(within="90%"))
