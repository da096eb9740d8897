"""The action's own steps, run in bash over a repository with three specs: two are touched."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.review.action import ACTION, ROOT, Runner
from tests.review.repository import SERVING, begin, commit, done, edit, git, shardwright

MARKER = "<!-- shardwright:review:serving -->\n"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A pull request with a new plan for each of two specs."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.chdir(checkout)
    begin(checkout)
    base = git(checkout, "rev-parse", "HEAD").strip()
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    done("plan", f"{SERVING}/chat.yaml", "-o", f"{SERVING}/chat.plan.yaml")
    done("plan", f"{SERVING}/code/spec.yaml", "-o", f"{SERVING}/code/plan.yaml")
    done("render", f"{SERVING}/chat.plan.yaml", "-o", f"{SERVING}/chat_package")
    commit("more traffic")
    github = {"token": "secret", "event.pull_request.base.sha": base, "event.pull_request.number": "7"}
    return Runner(checkout, tmp_path / "runner", github)


def comments(runner: Runner) -> list[str]:
    return [each["body"] for each in json.loads(runner.comments.read_text(encoding="utf-8"))]


def test_two_specs_are_solved_and_one_comment_is_kept_up_to_date(runner: Runner) -> None:
    code, outputs, printed = runner.run(folder=SERVING)
    assert (code, outputs["exit-code"], outputs["reviewed"]) == (0, "0", "2")
    solved = [line for line in printed.splitlines() if line.startswith("reviewing ")]
    assert solved == [f"reviewing {SERVING}/chat.yaml", f"reviewing {SERVING}/code/spec.yaml"]
    (first,) = comments(runner)
    assert first.startswith(f"{MARKER}### 2 specs reviewed of 3 specs in serving: 2 fine\n")
    assert f"<summary>{SERVING}/chat.yaml</summary>" in first
    assert f"<summary>{SERVING}/code/spec.yaml</summary>" in first
    assert f"{SERVING}/other.yaml" not in first
    assert first in Path(runner.temporary, "summary.md").read_text(encoding="utf-8")

    edit(f"{SERVING}/code/spec.yaml", "concurrency: 24", "concurrency: 32")
    commit("more traffic still, and the plan forgotten")
    code, outputs, printed = runner.run(folder=SERVING)
    assert (code, outputs["exit-code"]) == (1, "1")
    assert "::error::a policy is broken, or a plan or a package is stale" in printed
    (second,) = comments(runner)
    assert second.startswith(f"{MARKER}### 2 specs reviewed of 3 specs in serving: 1 stale, 1 fine\n")
    assert [call.split()[2] for call in runner.calls()] == [
        "repos/owner/name/issues/7/comments", "POST", "repos/owner/name/issues/7/comments", "PATCH"
    ]  # fmt: skip


def test_a_comment_that_says_what_is_no_longer_so_is_mended_and_none_is_begun_over_nothing(runner: Runner) -> None:
    head = git(runner.checkout, "rev-parse", "HEAD").strip()
    assert runner.run(folder=SERVING, base=head)[1]["reviewed"] == "0"
    assert comments(runner) == []
    runner.run(folder=SERVING)
    runner.run(folder=SERVING, base=head)
    assert comments(runner) == [f"{MARKER}No spec of serving is touched (3 specs).\n"]


def test_other_comments_and_those_of_other_folders_are_left_alone(runner: Runner) -> None:
    others = [{"id": 1, "body": "looks good"}, {"id": 2, "body": "<!-- shardwright:review:serving/code -->\n"}]
    runner.comments.write_text(json.dumps(others), encoding="utf-8")
    runner.run(folder=SERVING)
    assert [*comments(runner)[:2], len(comments(runner))] == [*(each["body"] for each in others), 3]


def test_a_policy_an_error_and_options(runner: Runner) -> None:
    Path("policy.yaml").write_text("tpot: +2%\n", encoding="utf-8")
    assert runner.run(folder=SERVING, policy="policy.yaml")[0] == 1
    code, outputs, printed = runner.run(folder=SERVING, all="true", attribute="false")
    assert (code, outputs["reviewed"]) == (2, "3")
    assert "::error::a spec is wrong" in printed
    assert "only_input" in Path(outputs["json-file"]).read_text(encoding="utf-8")
    calls = len(runner.calls())
    code, outputs, _ = runner.run(folder=SERVING, policy="nowhere.yaml")
    assert (code, outputs["reviewed"], len(runner.calls())) == (2, "0", calls)


def test_text_of_a_pull_request_is_never_run(runner: Runner) -> None:
    code, _, printed = runner.run(folder='$(touch hacked)"; touch hacked; "')
    assert code == 2, printed
    assert not Path("hacked").exists()


def test_where_nothing_can_be_posted_the_verdict_stands(runner: Runner) -> None:
    runner.variables["REFUSE"] = "yes"
    code, _, printed = runner.run(folder=SERVING)
    assert (code, "::warning::the review could not be posted" in printed) == (0, True)
    calls = len(runner.calls())
    assert runner.run(folder=SERVING, comment="false")[0] == 0
    runner.github = {**runner.github, "event.pull_request.number": ""}
    assert runner.run(folder=SERVING)[0] == 0
    assert len(runner.calls()) == calls


def test_the_base_of_a_push_is_the_commit_before(runner: Runner) -> None:
    runner.github = {"token": "secret", "event.before": runner.github["event.pull_request.base.sha"]}
    assert runner.run(folder=SERVING)[1]["reviewed"] == "2"
    assert runner.calls() == []
    for before in ("", "0" * 40):
        runner.github = {"token": "secret", "event.before": before}
        code, outputs, _ = runner.run(folder=SERVING)
        assert (code, outputs["reviewed"]) == (0, "0")


def test_a_shallow_checkout_fetches_the_base(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{runner.checkout}", "shallow")
    runner.checkout = tmp_path / "shallow"
    monkeypatch.chdir(runner.checkout)
    assert runner.run(folder=SERVING)[1]["reviewed"] == "2"


def test_the_action_installs_this_checkout() -> None:
    install = ACTION["runs"]["steps"][0]["run"]
    assert '-c "$GITHUB_ACTION_PATH/constraints.txt" "$GITHUB_ACTION_PATH"' in install
    assert (ROOT / "constraints.txt").exists()


def test_the_hook_of_pre_commit_finds_a_stale_plan(runner: Runner) -> None:
    (hook,) = YAML(typ="safe", pure=True).load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    program, *arguments = hook["entry"].split()
    assert program == "shardwright"
    assert shardwright(*arguments)[0] == 0
    edit(f"{SERVING}/chat.yaml", "concurrency: 12", "concurrency: 16")
    git(runner.checkout, "add", "-A")
    code, out, _ = shardwright(*arguments)
    assert (code, "chat.plan.yaml is not the plan of" in out) == (1, True)
