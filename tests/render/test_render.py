"""Rendering: the same plan gives the same bytes, nothing unused comes out, and folders are owned whole."""

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest

from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from planner.render import RenderError, check_package, render_package, write_package
from planner.render.package import signature, templates_folder
from tests.package.cases import CASES, COPIED, GENERATE_CASES, INT8, INT8_CACHES, POOLS, READS
from tests.package.drawn import drawn_case
from tests.render.plans import LLAMA_70B, TINY, Case, make_plan

RUFF = (sys.executable, "-m", "ruff")
ROOT = Path(__file__).resolve().parents[2]
PLAIN = Case("plain", {"x": 2, "y": 4}, G(q_heads=("y",), kv_heads=("y",)), P(q_heads=("y",), kv_heads=("y",)), TINY)
LLAMA = Case(
    "llama",
    {"x": 4, "y": 4},
    G(batch=("x",), d_model=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    P(tokens=("x",), q_heads=("y",), kv_heads=("y",), d_ff=("y",), vocab=("x", "y")),
    model=LLAMA_70B,
    weights="int8",
    activations="bf16",
    kv_cache="bf16",
    chip="v5e",
    slice="4x4",
)
CASES_OF_PACKAGES = (*CASES, *GENERATE_CASES, *INT8, *INT8_CACHES, *READS, *COPIED, *POOLS, *map(drawn_case, range(8)))
ON_TPU = [
    replace(
        case,
        name=f"{case.name}_on_tpu",
        model={**case.model, "head_dim": 128},
        chip="v5e",
        activations="bf16",
        kv_cache="bf16",
    )
    for case in READS
    if case.weights != "int8"
]
EVERY = [PLAIN, LLAMA, replace(PLAIN, name="bf16", weights="bf16"), *CASES_OF_PACKAGES, *ON_TPU]


def code(files: Mapping[str, str]) -> dict[str, str]:
    """The Python files of a package."""
    return {name: text for name, text in files.items() if name.endswith(".py")}


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert render_package(make_plan(LLAMA)) == render_package(make_plan(LLAMA))


def test_every_file_begins_with_the_digest_of_the_plan() -> None:
    files = render_package(make_plan(PLAIN))
    first_lines = {text.splitlines()[0].strip("#<!-> ") for name, text in files.items() if name != "plan.yaml"}
    assert len(first_lines) == 1
    assert re.fullmatch(
        r"Rendered from plan\.yaml \(sha256 [0-9a-f]{8}\)\. "
        r"Do not edit: `shardwright render plan\.yaml` overwrites this file\.",
        first_lines.pop(),
    )
    other = render_package(make_plan(replace(PLAIN, batch=16)))
    assert other["model.py"].splitlines()[0] != files["model.py"].splitlines()[0]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of all cases."""
    folder = tmp_path_factory.mktemp("every")
    for case in EVERY:
        write_package(make_plan(case), folder / case.name)
    return folder


def test_rendered_code_is_formatted_and_lints(every: Path) -> None:
    settings = ("--config", str(ROOT / "pyproject.toml"))
    for command in (("format", "--check"), ("check", "--no-cache")):
        ran = subprocess.run([*RUFF, *command, *settings, "."], cwd=every, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("most", [20, pytest.param(len(EVERY), marks=pytest.mark.exhaustive)])
def test_rendered_code_passes_strict_type_checks(every: Path, tmp_path: Path, most: int) -> None:
    settings = ("--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "types"))
    mypy = (sys.executable, "-m", "mypy", *settings, *most_unlike(every, most))
    ran = subprocess.run(mypy, cwd=every, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def most_unlike(every: Path, most: int) -> list[str]:
    """So many packages that have the most different lines among them, numbers aside."""
    lines = {package.name: lines_of(package) for package in every.iterdir()}
    chosen: list[str] = []
    seen: set[tuple[str, str]] = set()
    while len(chosen) < most:
        best = max(sorted(lines), key=lambda name: len(lines[name] - seen))
        chosen.append(best)
        seen |= lines.pop(best)
    return chosen


def lines_of(package: Path) -> set[tuple[str, str]]:
    """(file, line) of all code of a package."""
    return {
        (path.name, re.sub(r"\d+", "0", line))
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
    }


def test_no_rendered_file_is_long(every: Path) -> None:
    lengths = {path: path.read_text().count("\n") for path in every.rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines >= 400} == {}


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_mesh_axes_are_named_in_the_rule_tables_only(case: Case) -> None:
    for name, text in code(render_package(make_plan(case))).items():
        strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        assert name == "sharding.py" or not strings & set(case.mesh), name


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_every_planned_collective_is_found_in_the_text_by_its_address(case: Case) -> None:
    plan = make_plan(case)
    files = code(render_package(plan))
    for phase, planned in (("prefill", plan.prefill.collectives), ("generate", plan.generate.collectives)):
        text = files[f"{phase}.py"] + files["kv_cache.py"]  # which brings prompts to their slots
        scopes = set(re.findall(r'named_scope\("([a-z_.0-9]+)"\)', text))
        assert {each.address.removesuffix("_scale") for each in planned} <= {
            scope.removesuffix("_scale") for scope in scopes
        }


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_nothing_is_defined_and_not_used(case: Case) -> None:
    files = code(render_package(make_plan(case)))
    words = re.findall(r"\w+", "\n".join(files.values()))
    offered = {"bench", "chat", "generate", "PagedAttention"}
    for name, text in files.items():
        if name.startswith("tests/"):
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in offered:
                assert words.count(node.name) > 1, f"{name}: {node.name}"


def test_a_plan_without_a_feature_has_none_of_its_code() -> None:
    text = "\n".join(code(render_package(make_plan(PLAIN))).values())
    for absent in ("w_q_scale", "all_to_all", "reduce_scatter", "ragged", "kernel", "zero_heads", "gather_", "sharded"):
        assert not re.search(rf"\w*{absent}\w*\(", text), absent
    assert "ragged_paged_attention" in render_package(make_plan(LLAMA))["attention.py"]
    assert "w_q_scale" in render_package(make_plan(LLAMA))["prefill.py"]


def test_templates_refuse_a_name_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "model.py.j2").write_text("{{ view.no_such_field }}\n")
    with pytest.raises(jinja2.UndefinedError, match="no_such_field"):
        render_package(make_plan(PLAIN), tmp_path)


def test_templates_only_print() -> None:
    for path in templates_folder().rglob("*.j2"):
        for tag in re.findall(r"\{%[-+]?\s*(\w+)", path.read_text()):
            assert tag in {"for", "endfor", "if", "elif", "else", "endif", "set"}, (path.name, tag)


def test_an_overlay_replaces_and_adds_files(tmp_path: Path) -> None:
    (tmp_path / "README.md.j2").write_text("Ours: {{ view.name }}\n")
    (tmp_path / "extra.txt.j2").write_text("{{ view.chips }}\n")
    files = render_package(make_plan(PLAIN), tmp_path)
    assert files["README.md"] == "Ours: plain\n"
    assert files["extra.txt"] == "8\n"
    assert files["model.py"] == render_package(make_plan(PLAIN))["model.py"]
    with pytest.raises(RenderError, match=r"overlay .* is no folder"):
        render_package(make_plan(PLAIN), tmp_path / "absent")


def test_check_lists_changed_missing_and_extra_files(tmp_path: Path) -> None:
    folder, plan = tmp_path / "package", make_plan(PLAIN)
    write_package(plan, folder)
    assert not check_package(plan, folder)
    (folder / "model.py").write_text("changed\n")
    (folder / "sampling.py").unlink()
    (folder / "notes.txt").write_text("mine\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "model.pyc").write_bytes(b"\x00")
    drift = check_package(plan, folder)
    assert drift
    assert (drift.changed, drift.missing, drift.extra) == (("model.py",), ("sampling.py",), ("notes.txt",))
    assert "--- model.py (found)\n+++ model.py (rendered)\n" in drift.diff
    assert "-changed\n" in drift.diff
    assert drift.text().startswith("changed model.py\nmissing sampling.py\nextra   notes.txt\n\n--- model.py (found)\n")
    assert set(check_package(plan, tmp_path / "absent").missing) == set(render_package(plan))


def test_write_replaces_the_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    write_package(make_plan(PLAIN), folder)
    (folder / "stale.py").write_text("")
    names = write_package(make_plan(LLAMA), folder)
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(names)
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


def test_write_keeps_what_it_did_not_render(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work\n")
    (tmp_path / "mine" / "plan.yaml").write_text("a plan of its own\n")
    with pytest.raises(RenderError, match="holds files that were not rendered"):
        write_package(make_plan(PLAIN), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(RenderError, match="is a file"):
        write_package(make_plan(PLAIN), tmp_path / "file")


@pytest.mark.parametrize("name", ["my-package", "1st", "class"])
def test_a_folder_that_cannot_be_imported_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RenderError, match="cannot be imported as a package"):
        write_package(make_plan(PLAIN), tmp_path / name)


def faulty(**changes: Any) -> Case:
    return replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (faulty(generate=G(q_heads=("y",)), prefill=P()), "KV heads are copied over y though a chip holds several"),
        (faulty(generate=G(batch=("x",))), "generate.batch must be d_model axes, then q_heads axes"),
        (faulty(generate=G(d_model=("y",), q_heads=("y",))), "generate.d_model must share no axis with q_heads"),
        (faulty(prefill=P(d_model=("x",))), "prefill.d_model must be the leading axes of generate.d_model"),
        (faulty(prefill=P(q_heads=("y",))), "prefill.kv_heads must be generate.kv_heads less what q_heads gathers"),
        (faulty(prefill=P(q_heads=("y",), kv_heads=("y",), vocab=("x",))), "prefill.vocab must equal generate.vocab"),
        (faulty(prefill=P(tokens=("y", "x"), q_heads=("y",), kv_heads=("y",))), "prefill.tokens must be axes that"),
        (faulty(prefill=P(tokens=("x",)), buckets=(15,)), "prefill bucket 15 does not divide over x"),
        (
            faulty(generate=G(batch=("x",), d_model=("x",)), prefill=P(), batch=7),
            "generate.batch 7 does not divide over x",
        ),
        (faulty(generate=G(rows=("x",), batch=("x",), d_model=("x",))), "generate.rows must share no axis with batch"),
        (faulty(generate=G(q_heads=("y",), kv_tokens=("x",))), "generate.q_heads must be kv_heads, axes that copy"),
        (faulty(generate=G(rows=("x",)), batch=7, prefill=P()), "generate.batch 7 does not divide over x"),
        (faulty(model={**TINY, "family": "gemma3"}), "no package is rendered yet for model family gemma3"),
        (
            faulty(model={**TINY, "rope": {"theta": 1.0, "scaling": {"type": "yarn"}}}),
            "no package is rendered yet for rope scaling yarn",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_rendered_is_named(case: Case, message: str) -> None:
    with pytest.raises(RenderError, match=re.escape(message)):
        render_package(make_plan(case))


def test_an_axis_outside_the_mesh_is_named() -> None:
    plan = make_plan(PLAIN)
    stray = plan.generate.model_copy(update={"rules": G(q_heads=("z",))})
    with pytest.raises(RenderError, match=r"generate\.q_heads names z, which is no axis of the mesh \['x', 'y'\]"):
        render_package(plan.model_copy(update={"generate": stray}))


def test_rendering_needs_no_jax() -> None:
    script = "import sys; import planner.render; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("arguments", [[], ["a: int"], ["", "a: int", ""], [f"argument_{n}: int" for n in range(9)]])
@pytest.mark.parametrize("name", ["f", "f" * 60])
def test_signatures_are_wrapped_as_the_formatter_does(tmp_path: Path, name: str, arguments: list[str]) -> None:
    (tmp_path / "code.py").write_text(f"{signature(name, arguments, 'tuple[int, int]')}\n    return 1, 2\n")
    command = [*RUFF, "format", "--check", "--config", str(ROOT / "pyproject.toml"), "code.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
