"""The compiler's memory against the plan's budget."""

import pytest

from planner.plan.records import Hbm
from planner.verify.build import Memory, Phase, Step
from planner.verify.memory import memory_lines, pool_lines, total_lines, with_one_layer_copied

GB = 10**9
HBM = Hbm(
    weights=4 * GB,
    kv_cache=GB,
    activations=GB // 2,
    logits=0,
    total=11 * GB // 2,
    reserve=GB,
    capacity=16 * GB,
    available=15 * GB,
    free=19 * GB // 2,
)
GENERATE = Memory(arguments=5 * GB + 4096, results=GB + 64, kept=GB, temporaries=1000, program=10**6)


def verdicts(phase: Phase, memory: Memory, native: bool = True) -> list[str]:
    return [line.verdict for line in memory_lines(phase, memory, HBM, native)]


@pytest.mark.parametrize(
    ("phase", "memory", "expected"),
    [
        pytest.param("generate", GENERATE, ["equal", "equal", "within"], id="as planned"),
        pytest.param(
            "prefill", Memory(4 * GB, GB // 4, 0, GB // 4, 0), ["equal", "within"], id="prefill fills its budget"
        ),
        pytest.param("prefill", Memory(4 * GB, GB // 4, 0, GB // 3, 0), ["equal", "over"], id="prefill needs more"),
        pytest.param("generate", Memory(6 * GB, GB, GB, 0, 0), ["over", "equal", "within"], id="arguments are padded"),
        pytest.param(
            "generate", Memory(4 * GB, GB, GB, 0, 0), ["under", "equal", "within"], id="arguments are missing"
        ),
        pytest.param("generate", Memory(5 * GB, GB, 0, 0, 0), ["equal", "lost", "over"], id="donation is lost"),
        pytest.param(
            "insert", Memory(2 * GB, GB, GB, 2 * GB, 0), ["equal", "over"], id="insert copies the cache twice"
        ),
    ],
)
def test_verdicts(phase: Phase, memory: Memory, expected: list[str]):
    assert verdicts(phase, memory) == expected


def test_temporaries_of_another_backend_are_not_judged():
    assert verdicts("generate", Memory(5 * GB, GB, GB, 9 * GB, 0), native=False) == ["equal", "equal", "not judged"]


def test_the_total_adds_the_largest_phase_to_what_stays():
    prefill = Memory(4 * GB, GB // 4, 0, GB // 8, 10**6)
    total, limit = total_lines({Step("prefill", 64): prefill, Step("generate"): GENERATE}, HBM, native=True)
    assert total.found == limit.found == GENERATE.arguments + prefill.added
    assert (total.verdict, limit.verdict) == ("within", "within")


def test_a_total_beyond_the_budget_may_be_within_what_a_chip_has():
    prefill = Memory(4 * GB, 2 * GB, 0, 0, 0)
    lines = total_lines({Step("prefill", 64): prefill, Step("generate"): GENERATE}, HBM, native=True)
    assert [line.verdict for line in lines] == ["over", "within"]
    more = total_lines({Step("prefill", 64): Memory(4 * GB, 12 * GB, 0, 0, 0), Step("generate"): GENERATE}, HBM, True)
    assert [line.verdict for line in more] == ["over", "over"]


def test_a_chip_that_only_reads_prompts_has_a_total_of_its_own():
    memories = {Step("prefill", 64): Memory(4 * GB, GB, 0, 0, 0), Step("generate"): GENERATE}
    total, limit = pool_lines(memories, HBM, native=True)
    assert (total.what, total.found, total.verdict) == ("total while reading prompts", 5 * GB, "within")
    assert limit.verdict == "within"
    assert pool_lines({Step("generate"): GENERATE}, HBM, native=True) == ()


def test_a_cpu_may_copy_one_layer_of_the_weights():
    more = with_one_layer_copied(HBM, 8)
    assert (more.activations, more.total) == (GB, 6 * GB)
    copies = HBM.model_copy(update={"copies": 4 * GB})
    assert with_one_layer_copied(copies, 8).activations == GB // 2 + GB
