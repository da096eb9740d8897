"""Every kind of rule, waivers and their end, and every mistake a policy file can have."""

from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.diff.judge import judged
from planner.diff.policy import METRICS, PolicyErrors, policy_from_text
from planner.diff.schema import NOTHING_ELSE, Change, Forced, Infeasible, Number, PlanDiff, Unit
from planner.spec import format_diagnostics
from tests.plans_of import SPECS

TODAY = date(2026, 12, 1)
SPEC = SPECS / "smollm2_135m_cpu8.yaml"


def difference(**values: tuple[Unit, float, float]) -> PlanDiff:
    """A difference with numbers by the names of policies."""
    numbers = tuple(
        Number(address=METRICS[name].addresses[-1], title=name, unit=unit, base=base, head=head)
        for name, (unit, base, head) in values.items()
    )
    return PlanDiff(base="a", head="a", numbers=numbers, changes=(), unchanged={})


def verdicts(text: str, found: PlanDiff, today: date = TODAY) -> list[str]:
    """What a policy says of a difference, rule by rule."""
    policy = judged(found, policy_from_text(text, "policy.yaml"), today).policy
    assert policy is not None
    return [each.verdict for each in policy.verdicts]


@pytest.mark.parametrize(
    ("rule", "number", "verdict"),
    [
        ("tpot: +5%", ("s", 0.020, 0.021), "kept"),
        ("tpot: +5%", ("s", 0.020, 0.02101), "broken"),
        ("tpot: +5%", ("s", 0.020, 0.010), "kept"),
        ("tpot: +1 ms", ("s", 0.020, 0.021), "kept"),
        ("tpot: +1 ms", ("s", 0.020, 0.0211), "broken"),
        ("tpot: -5%", ("s", 0.020, 0.0195), "broken"),
        ("tpot: -5%", ("s", 0.020, 0.0189), "kept"),
        ("ttft: <= 200 ms", ("s", 0.1, 0.2), "kept"),
        ("ttft: <= 200 ms", ("s", 0.1, 0.2001), "broken"),
        ("generate_step: ≤ 10 ms", ("s", 0.1, 0.01), "kept"),
        ("prefill_step: +0%", ("s", 0.1, 0.1000001), "broken"),
        ("cost: +0%", ("chip-s", 1000, 1000), "kept"),
        ("cost: +0%", ("chip-s", 1000, 1000.1), "broken"),
        ("cost: <= 1200", ("chip-s", 1000, 1300), "broken"),
        ("cost: <= 1300 chip-s", ("chip-s", 1000, 1300), "kept"),
        ("throughput: -10%", ("tokens/s", 100, 90), "kept"),
        ("throughput: -10%", ("tokens/s", 100, 89), "broken"),
        ("throughput: '>= 95'", ("tokens/s", 100, 94), "broken"),
        ("throughput: +2%", ("tokens/s", 100, 101), "broken"),
        ("hbm_headroom: >= 5%", ("share", 0.2, 0.05), "kept"),
        ("hbm_headroom: >= 5%", ("share", 0.2, 0.049), "broken"),
        ("hbm_headroom: -2%", ("share", 0.2, 0.18), "kept"),
        ("hbm_headroom: -2%", ("share", 0.2, 0.17), "broken"),
        ("hbm: <= 14 GB", ("bytes", 1e9, 15e9), "broken"),
        ("hbm: +2 GiB", ("bytes", 1e9, 3e9), "kept"),
        ("chips: +0", ("chips", 8, 16), "broken"),
        ("chips: <= 16", ("chips", 8, 16), "kept"),
    ],
)
def test_a_limit_is_kept_up_to_its_value(rule: str, number: tuple[Unit, float, float], verdict: str) -> None:
    assert verdicts(rule, difference(**{rule.split(":")[0]: number})) == [verdict]


def test_every_metric_is_tested_above() -> None:
    rules = next(mark for mark in test_a_limit_is_kept_up_to_its_value.pytestmark if mark.name == "parametrize").args[1]
    assert {rule.split(":")[0] for rule, *_ in rules} == set(METRICS)


def test_a_list_demands_several_things() -> None:
    assert verdicts("tpot: [+50%, <= 25 ms]", difference(tpot=("s", 0.02, 0.026))) == ["kept", "broken"]


def test_growth_from_nothing_breaks_any_percentage() -> None:
    assert verdicts("cost: +500%", difference(cost=("chip-s", 0, 1))) == ["broken"]


def test_money_is_the_cost_where_both_plans_know_it() -> None:
    money = Number(address="service.money_per_million_tokens", title="", unit="money", base=2, head=3)
    found = difference(cost=("chip-s", 10, 10))
    assert verdicts("cost: +0%", found.model_copy(update={"numbers": (*found.numbers, money)})) == ["broken"]


def test_what_is_forbidden_must_not_be_forced() -> None:
    found = difference().model_copy(update={"forced": (Forced(force="reshard_weights", text="all of them"),)})
    assert verdicts("forbid: [reshard_weights, more_chips]", found) == ["broken", "kept"]


def test_unexplained_predictions_can_be_forbidden() -> None:
    alone = Change(kind="prediction", address="generate.step_s", action="change", reasons=(NOTHING_ELSE,))
    found = difference().model_copy(update={"changes": (alone,)})
    assert verdicts("forbid: [unexplained_predictions]", found) == ["broken"]
    assert verdicts("forbid: [unexplained_predictions]", difference()) == ["kept"]


def test_without_a_plan_nothing_is_judged() -> None:
    found = difference().model_copy(update={"infeasible": Infeasible(side="head", message="too small")})
    assert verdicts("tpot: +5%\nforbid: [more_chips]", found) == ["unknown", "unknown"]


WAIVED = """tpot: +5%
waivers:
  - {allow: tpot, reason: "new kernels land in March", until: 2026-12-01}
"""


@pytest.mark.parametrize(
    ("head", "today", "verdict", "waiver", "notes"),
    [
        (0.03, date(2026, 12, 1), "waived", "waived until 2026-12-01: new kernels land in March (policy.yaml:3)", ()),
        (0.03, date(2026, 12, 2), "broken", "its waiver ended on 2026-12-01 (policy.yaml:3)",
         ("policy.yaml:3: the waiver of tpot ended on 2026-12-01; remove it or renew it: new kernels land in March",)),
        (0.02, date(2026, 12, 2), "kept", "",
         ("policy.yaml:3: the waiver of tpot ended on 2026-12-01; remove it or renew it: new kernels land in March",)),
        (0.02, date(2026, 12, 1), "kept", "",
         ("policy.yaml:3: the waiver of tpot until 2026-12-01 is not needed by this change",)),
    ],
)  # fmt: skip
def test_a_waiver_holds_until_its_day(
    head: float, today: date, verdict: str, waiver: str, notes: tuple[str, ...]
) -> None:
    found = judged(difference(tpot=("s", 0.02, head)), policy_from_text(WAIVED, "policy.yaml"), today).policy
    assert found is not None
    assert [(each.verdict, each.waiver) for each in found.verdicts] == [(verdict, waiver)]
    assert found.notes == notes
    assert bool(found.broken) == (verdict == "broken")


def test_a_waiver_waives_its_own_rule_alone() -> None:
    text = WAIVED.replace("tpot: +5%\n", "tpot: +5%\nttft: +5%\n")
    found = difference(tpot=("s", 0.02, 0.03), ttft=("s", 0.2, 0.3))
    assert verdicts(text, found) == ["waived", "broken"]


WRONG = [
    ("tpott: +5%\n", 'p.yaml:1:1: a policy has no "tpott"; did you mean "tpot"? [unknown-key]'),
    ("tpot: 5%\n", 'p.yaml:1:7: tpot cannot be "5%": that is no demand; '
     'write +5% for a change against base, or "<= 30 ms" for a bound [demand]'),
    ("\nthroughput: 5\n", "p.yaml:2:13: throughput cannot be 5: that is no demand; "
     'write -5% for a change against base, or ">= 500" for a bound [demand]'),
    ("tpot: <= 30 mins\n", 'p.yaml:1:7: "mins" is not a unit of tpot; units: s, ms, us, min, as in 30 ms [unit]'),
    ("tpot: <= 30\n", "p.yaml:1:7: tpot needs a unit; units: s, ms, us, min, as in 30 ms [unit]"),
    ("cost: <= 3 s\n", 'p.yaml:1:7: "s" is not a unit of cost; units: chip-s, as in 12000 [unit]'),
    ("forbid: reshard_weights\n", 'p.yaml:1:9: forbid must be a list, not "reshard_weights"; '
     "write forbid: [reshard_weights] [type]"),
    ("forbid: [reshard_weight]\n", 'p.yaml:1:10: nothing to forbid is called "reshard_weight"; '
     'did you mean "reshard_weights"? [unknown-key]'),
    ("forbid: [recompile, recompile]\n", "p.yaml:1:21: forbid names recompile twice [repeated]"),
    ("[tpot]\n", "p.yaml:1:1: a policy must be a mapping, not [tpot]; for example tpot: +5% [type]"),
    ("tpot: +5%\ntpot: +6%\n", 'p.yaml:2:1: key "tpot" is already set on line 1 [duplicate-key]'),
    ("tpot: +5%\nwaivers: tpot\n", 'p.yaml:2:10: waivers must be a list, not "tpot"; '
     'write - {allow: tpot, reason: "why", until: 2027-01-31} [type]'),
    ("tpot: +5%\nwaivers:\n  - {allow: tpot, until: 2027-01-31}\n", "p.yaml:3:5: a waiver lacks reason; "
     "a waiver has allow, reason, until [missing-key]"),
    ("tpot: +5%\nwaivers:\n  - {allow: tpot, reason: x, untill: 2027-01-31}\n",
     'p.yaml:3:30: a waiver has no "untill"; did you mean "until"? [unknown-key]'),
    ("tpot: +5%\nwaivers:\n  - {allow: tpot, reason: '', until: 2027-01-31}\n",
     "p.yaml:3:27: a waiver needs a reason; say who decided it and what ends it [reason]"),
    ("tpot: +5%\nwaivers:\n  - {allow: tpot, reason: x, until: 31.1.2027}\n",
     'p.yaml:3:37: until cannot be "31.1.2027": that is no day; write a day as 2027-01-31 [date]'),
    ("tpot: +5%\nwaivers:\n  - {allow: tpt, reason: x, until: 2027-01-31}\n",
     'p.yaml:3:13: no rule is called "tpt"; did you mean "tpot"? [unknown-key]'),
    ("tpot: +5%\nwaivers:\n  - {allow: ttft, reason: x, until: 2027-01-31}\n",
     "p.yaml:3:13: the policy has no rule ttft that could be waived; its rules: tpot [waiver]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_a_mistake_is_told_with_its_place_and_the_nearest_fix(text: str, told: str) -> None:
    with pytest.raises(PolicyErrors) as error:
        policy_from_text(text, "p.yaml")
    assert [each.headline for each in error.value.diagnostics] == [told]


def test_all_mistakes_are_told_at_once_with_the_lines_of_the_file() -> None:
    with pytest.raises(PolicyErrors) as error:
        policy_from_text("hbm_headroom: >= 5 GB\ncosts: +0%\n", "p.yaml")
    told = format_diagnostics(error.value.diagnostics)
    assert told.endswith("2 errors")
    assert "1 | hbm_headroom: >= 5 GB\n  |               ^~~~~~~" in told


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_a_wrong_policy_is_no_broken_one(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("tpott: +5%\n")
    code, out, err = run(SPEC, SPEC, "--policy", policy)
    assert (code, out) == (2, "")
    assert f'{policy}:1:1: a policy has no "tpott"' in err
    code, _, err = run(SPEC, SPEC, "--policy", tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml: cannot read the file" in err


def test_a_broken_policy_exits_1_and_a_kept_one_0(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("throughput: '>= 1000000'\n")
    assert run(SPEC, SPEC, "--policy", policy)[0] == 1
    policy.write_text("throughput: -0%\n")
    code, out, _ = run(SPEC, SPEC, "--policy", policy)
    assert (code, out) == (0, f"No changes.\nPolicy kept: 1 rule of {policy}.\n")
