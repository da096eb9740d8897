"""`shardwright review` in a repository: what is touched, what is stale, what is broken, and the exit code of each."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.review import run
from tests.golden import Golden
from tests.review.repository import SERVING, begin, commit, done, edit, git, shardwright, spec_text, write

GOLDEN = Path(__file__).resolve().parent / "golden"
TODAY = ("--today", "2026-12-01")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        begin(folder)
    return folder


@pytest.fixture
def repository(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone to change things in."""
    git(tmp_path, "clone", "-q", str(origin), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the specs that are planned."""
    names: list[str] = []
    plan = run.wanted_plan

    def counted(spec: Any, *rest: Any) -> Any:
        names.append(spec.name)
        return plan(spec, *rest)

    monkeypatch.setattr(run, "wanted_plan", counted)
    return names


def review(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the review of the folder as JSON."""
    code, out, err = shardwright("review", "--folder", SERVING, "--format", "json", *TODAY, *arguments)
    assert out, err
    return code, json.loads(out)


def one(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the only spec that is reviewed."""
    code, found = review(*arguments)
    (reviewed,) = found["reviewed"]
    return code, reviewed


def plan_chat() -> None:
    done("plan", f"{SERVING}/chat.yaml", "-o", f"{SERVING}/chat.plan.yaml")


def render_chat() -> None:
    done("render", f"{SERVING}/chat.plan.yaml", "-o", f"{SERVING}/chat_package")


def test_nothing_touched_is_nothing_solved(repository: Path, solved: list[str]) -> None:
    write("README.md", "no spec\n")
    code, out, err = shardwright("review", "--folder", SERVING)
    assert (code, out, err) == (0, "No spec of serving is touched (3 specs).\n", "")
    assert solved == []


def test_only_touched_specs_are_solved(repository: Path, solved: list[str]) -> None:
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    code, each = one("--base", "origin/main")
    assert solved == ["code"]
    assert (code, each["spec"], each["change"], each["verdict"]) == (1, f"{SERVING}/code/spec.yaml", "changed", "stale")


def test_a_current_change_is_fine_and_told(repository: Path) -> None:
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    plan_chat()
    render_chat()
    commit("more traffic")
    code, each = one("--base", "origin/main")
    assert (code, each["verdict"], each["stale"]) == (0, "fine", [])
    assert [given["address"] for given in each["diff"]["inputs"]] == ["workload.concurrency"]
    assert each["diff"]["attribution"] == "solved"
    code, each = one("--base", "origin/main", "--no-attribute")
    assert (code, each["diff"]["attribution"]) == (0, "only_input")


def test_a_plan_that_was_not_made_anew_is_stale_and_the_fix_works(repository: Path) -> None:
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    code, each = one()
    plan, package = each["stale"]
    assert code == 1
    assert plan.startswith(f"{SERVING}/chat.plan.yaml is not the plan of {SERVING}/chat.yaml: what it plans to today: ")
    assert package.startswith(f"{SERVING}/chat_package is not what the plan renders to: 44 changed (README.md, ")
    for sentence in (plan, package):
        done(*sentence.rsplit("; shardwright ", 1)[1].split())
    assert one()[0] == 0


def test_an_edited_plan_touches_its_spec_and_is_stale(repository: Path) -> None:
    edit(f"{SERVING}/chat.plan.yaml", "batch: 8", "batch: 16")
    code, each = one()
    assert (code, each["spec"], len(each["stale"])) == (1, f"{SERVING}/chat.yaml", 1)


def test_a_plan_that_is_only_written_otherwise_is_stale(repository: Path) -> None:
    edit(f"{SERVING}/chat.plan.yaml", "format_version:", "# by hand\nformat_version:")
    assert "only written otherwise" in one()[1]["stale"][0]


def test_an_edited_package_touches_its_spec_and_is_stale(repository: Path) -> None:
    write(f"{SERVING}/chat_package/model.py", "\n")
    write(f"{SERVING}/chat_package/notes.txt", "\n")
    Path(SERVING, "chat_package", "text.py").unlink()
    code, each = one()
    assert code == 1
    assert "1 changed (model.py), 1 missing (text.py), 1 extra (notes.txt)" in each["stale"][0]


def test_a_broken_policy(repository: Path) -> None:
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    done("plan", f"{SERVING}/code/spec.yaml", "-o", f"{SERVING}/code/plan.yaml")
    write("policy.yaml", "cost: +0%\ntpot: +2%\n")
    code, each = one("--policy", "policy.yaml")
    assert (code, each["verdict"]) == (1, "policy broken")
    write("policy.yaml", "cost: +0%\n")
    assert one("--policy", "policy.yaml")[0] == 0


def test_a_new_spec_has_nothing_to_compare_with_but_bounds_hold(repository: Path) -> None:
    write(f"{SERVING}/new.yaml", spec_text("new"))
    write("policy.yaml", "tpot: +0%\nchips: <= 4\n")
    code, each = one("--policy", "policy.yaml")
    assert (code, each["change"], each["verdict"], each["diff"]) == (1, "new", "policy broken", None)
    assert each["summary"].startswith("New: TTFT 196 ms, TPOT 102 ms, 78.2 tokens/s, 8 chips.")
    write("policy.yaml", "tpot: +0%\nchips: <= 8\n")
    assert one("--policy", "policy.yaml")[0] == 0


def test_a_renamed_spec_is_compared_with_what_it_was(repository: Path) -> None:
    for old, new in (("chat.yaml", "talk.yaml"), ("chat.plan.yaml", "talk.plan.yaml")):
        git(repository, "mv", f"{SERVING}/{old}", f"{SERVING}/{new}")
    code, each = one()
    assert (code, each["spec"], each["change"], each["summary"]) == (
        0, f"{SERVING}/talk.yaml", "changed", "No changes.",
    )  # fmt: skip


def test_a_removed_spec_leaves_no_plan_behind(repository: Path) -> None:
    Path(SERVING, "code", "spec.yaml").unlink()
    code, each = one()
    assert (code, each["change"], each["verdict"]) == (1, "removed", "stale")
    assert each["stale"] == [
        f"{SERVING}/code/plan.yaml is the plan of {SERVING}/code/spec.yaml, which is gone; remove it"
    ]
    Path(SERVING, "code", "plan.yaml").unlink()
    assert one()[0] == 0


def test_a_model_config_touches_the_specs_that_name_it(repository: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
    }  # fmt: skip
    write("models/small.json", json.dumps(config))
    write(f"{SERVING}/small.yaml", spec_text("small").replace("config: smollm2-135m", "config: ../models/small.json"))
    commit("a model of our own")
    write("models/small.json", json.dumps({**config, "num_hidden_layers": 3}))
    code, each = one()
    assert (code, each["spec"], each["change"]) == (0, f"{SERVING}/small.yaml", "changed")
    assert [given["address"] for given in each["diff"]["inputs"]] == ["model"]


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ("concurrency: 8", "concurrency: 0", "error", f"{SERVING}/chat.yaml:14:"),
        ("hardware:", "hardwear:", "error", 'did you mean "hardware"?'),
        ("chip: cpu", "chip: [", "error", f"{SERVING}/chat.yaml:"),
        ("concurrency: 8", "concurrency: 8\nlimits: {tpot: 1 us}", "no plan", "limits.tpot"),
    ],
    ids=["a value", "a key", "no YAML", "a limit"],
)
def test_a_spec_that_is_wrong_is_an_error_of_its_own(
    repository: Path, old: str, new: str, verdict: str, words: str
) -> None:
    edit(f"{SERVING}/chat.yaml", old, new)
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    code, out, _ = shardwright("review", "--folder", SERVING)
    assert code == 2
    assert f"{SERVING}/chat.yaml: {verdict}\n" in out
    assert f"{SERVING}/code/spec.yaml: stale\n" in out
    assert words in out


def test_a_file_that_cannot_be_told_as_a_spec_any_more_is_still_one(repository: Path) -> None:
    write(f"{SERVING}/chat.yaml", "nothing: here\n")
    code, each = one()
    assert (code, each["spec"], each["verdict"]) == (2, f"{SERVING}/chat.yaml", "error")


def test_a_plan_that_cannot_be_read_is_an_error(repository: Path) -> None:
    write(f"{SERVING}/chat.plan.yaml", "<<<<<<< ours\n")
    code, each = one()
    assert (code, each["verdict"]) == (2, "error")
    assert f"{SERVING}/chat.plan.yaml: not" in each["error"]


def test_a_base_that_cannot_be_planned_today_is_as_good_as_none(repository: Path) -> None:
    edit(f"{SERVING}/other.yaml", "chip: cpx", "chip: cpu")
    code, each = one()
    assert (code, each["change"], each["verdict"]) == (0, "new", "fine")
    assert each["notes"][0].startswith("Nothing to compare with: ")


def test_a_plan_near_an_earlier_one_is_current_while_it_is_the_nearest_to_itself(repository: Path) -> None:
    plan = f"{SERVING}/chat.plan.yaml"
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    done("plan", f"{SERVING}/chat.yaml", "--near", plan, "--within", "3%", "-o", plan)
    render_chat()
    code, each = one()
    assert (code, each["stale"]) == (0, [])
    edit(plan, "tpot_s: 0.1", "tpot_s: 0.2")
    assert "--near" in one()[1]["stale"][0]


def test_every_spec_where_that_is_asked_for(repository: Path) -> None:
    code, found = review("--all")
    assert code == 2
    assert [(each["spec"], each["verdict"]) for each in found["reviewed"]] == [
        (f"{SERVING}/chat.yaml", "fine"),
        (f"{SERVING}/code/spec.yaml", "fine"),
        (f"{SERVING}/other.yaml", "error"),
    ]


def test_a_check_compares_nothing_and_looks_at_no_spec_without_a_plan(repository: Path) -> None:
    code, found = review("--all", "--check")
    assert (code, [each["diff"] for each in found["reviewed"]]) == (0, [None] * 3)
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    code, out, _ = shardwright("review", "--check")
    assert (code, f"{SERVING}/chat.yaml: stale" in out) == (1, True)
    code, _, err = shardwright("review", "--check", "--policy", "policy.yaml")
    assert (code, "--check compares nothing" in err) == (2, True)


def test_a_branch_is_compared_with_where_it_left_the_base(repository: Path, solved: list[str]) -> None:
    git(repository, "checkout", "-q", "-b", "change")
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    commit("more code")
    git(repository, "checkout", "-q", "main")
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    commit("more chat, meanwhile")
    git(repository, "checkout", "-q", "change")
    one("--base", "main")
    assert solved == ["code"]


def test_from_a_folder_below_paths_are_those_from_there(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    monkeypatch.chdir(repository / SERVING)
    code, out, _ = shardwright("review")
    assert code == 1
    assert "code/spec.yaml: stale" in out
    assert "code/plan.yaml is not the plan of code/spec.yaml" in out


def test_before_the_first_commit_everything_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    write("chat.yaml", spec_text("chat"))
    code, out, _ = shardwright("review")
    assert (code, "chat.yaml: fine\n  New: " in out) == (0, True)


def test_two_specs_of_one_name_cannot_share_a_package(repository: Path) -> None:
    write(f"{SERVING}/twin.yaml", spec_text("chat"))
    code, _, err = shardwright("review")
    assert code == 2
    assert f"{SERVING}/chat.yaml and {SERVING}/twin.yaml are both called chat" in err


def test_what_cannot_be_done_is_told(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = shardwright("review", "--base", "nowhere")
    assert (code, "there is no revision nowhere; fetch it" in err) == (2, True)
    monkeypatch.chdir(tmp_path)
    code, _, err = shardwright("review")
    assert (code, "not in a git repository" in err) == (2, True)


def test_what_is_printed(repository: Path, golden: Golden) -> None:
    """One of each verdict, in every format."""
    edit(f"{SERVING}/chat.yaml", "concurrency: 8", "concurrency: 12")
    edit(f"{SERVING}/code/spec.yaml", "concurrency: 16", "concurrency: 24")
    edit(f"{SERVING}/other.yaml", "name: other", "name: others")
    write(f"{SERVING}/new.yaml", spec_text("new"))
    write(f"{SERVING}/tight.yaml", spec_text("tight") + "limits: {tpot: 1 us}\n")
    done("plan", f"{SERVING}/code/spec.yaml", "-o", f"{SERVING}/code/plan.yaml")
    write("policy.yaml", "tpot: +10%\n")
    asked = ("review", "--folder", SERVING, "--policy", "policy.yaml", *TODAY, "--comment-file", "comment.md")
    code, out, err = shardwright(*asked)
    assert code == 2
    assert "wrote comment.md" in err
    golden(GOLDEN / "review.txt", out)
    golden(GOLDEN / "comment.md", Path("comment.md").read_text(encoding="utf-8"))
    golden(GOLDEN / "review.json", shardwright(*asked, "--format", "json")[1])
