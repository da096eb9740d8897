"""Loading: overrides, short forms, units, what is unreadable, and how much it imports."""

import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from planner.spec import (
    Spec,
    SpecErrors,
    UnreadableSpec,
    check_spec,
    diagnostics_to_json,
    format_diagnostics,
    json_schema,
    load_spec,
)
from planner.spec.fields import addresses
from planner.spec.units import fraction, seconds

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "llama_3_1_70b_v5e_4x4.yaml"


def test_the_example_resolves() -> None:
    spec = load_spec(EXAMPLE)
    assert (spec.model.layers, spec.model.kv_heads, spec.model.weights.dtype) == (80, 8, "int8")
    assert (spec.hardware.slices, spec.hardware.reserve) == (("4x4",), 0.08)
    assert spec.workload.max_context == 1536 + 512
    assert (spec.limits.ttft_s, spec.serving.mode, spec.objective, spec.pins) == (None, "interleaved", "cost", {})


def test_overrides_win_and_the_last_of_two_wins() -> None:
    spec = load_spec(
        EXAMPLE,
        [
            "hardware.slices=[2x4, 4x4]",
            "model.kv_cache.dtype=int8",
            "model.layers=4",
            "limits.ttft=500 ms",
            "limits.ttft=1.5 s",
            "pins.generate.kv_cache=batch",
            "pins.prefill.d_ff=[x, y]",
            "pins.generate.d_model=none",
            "pins.generate.d_ff=x",
        ],
    )
    assert spec.hardware.slices == ("2x4", "4x4")
    assert (spec.model.kv_cache.dtype, spec.model.kv_cache.page_tokens, spec.model.layers) == ("int8", 128, 4)
    assert spec.limits.ttft_s == 1.5
    assert spec.pins == {
        "generate.kv_cache": "batch",
        "prefill.d_ff": ("x", "y"),
        "generate.d_model": (),
        "generate.d_ff": ("x",),
    }


def test_an_override_mends_what_the_file_has_wrong(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(EXAMPLE.read_text().replace("slice: 4x4", "slice: 4x5"))
    assert load_spec(path, ["hardware.slice=4x8"]).hardware.slices == ("4x8",)


def test_another_model_keeps_what_is_written_beside_config() -> None:
    spec = load_spec(EXAMPLE, ["model.config=mixtral-8x7b"])
    assert (spec.model.family, spec.model.weights.dtype) == ("mixtral", "int8")
    assert load_spec(EXAMPLE, ["model.config=mixtral-8x7b", "model.moe=null"]).model.moe is None


def test_a_rope_scaling_beside_config_replaces_the_imported_one() -> None:
    spec = load_spec(EXAMPLE, ["model.rope.scaling={type: linear, factor: 2.0}"])
    assert spec.model.rope.scaling is not None
    assert spec.model.rope.scaling.low_freq_factor is None
    assert spec.model.rope.theta == 500000.0


def test_a_model_path_is_relative_to_the_spec(tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text('{"model_type": "llama", "num_hidden_layers": 3}')
    (tmp_path / "spec.yaml").write_text(EXAMPLE.read_text().replace("config: llama-3.1-70b", "config: tiny.json"))
    spec, diagnostics = check_spec(tmp_path / "spec.yaml", ["workload.max_context=2048"])
    assert spec is not None
    assert spec.model.layers == 3
    assert not diagnostics


def test_empty_sections_are_empty_mappings(tmp_path: Path) -> None:
    text = "".join(line for line in EXAMPLE.read_text().splitlines(keepends=True) if not line.startswith("serving:"))
    (tmp_path / "spec.yaml").write_text(text + "limits:\nserving:\npins:\n")
    (tmp_path / "plain.yaml").write_text(text)
    assert load_spec(tmp_path / "spec.yaml") == load_spec(tmp_path / "plain.yaml")


def test_aliases_may_repeat_a_value(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("{mean: 1024, p95: 1536}", "&tokens {mean: 8, p95: 9}")
    (tmp_path / "spec.yaml").write_text(text.replace("{mean: 256, p95: 512}", "*tokens"))
    workload = load_spec(tmp_path / "spec.yaml").workload
    assert workload.prompt_tokens == workload.output_tokens


def test_aliases_cannot_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / "spec.yaml").write_text("\n".join(lines))
    with pytest.raises(SpecErrors, match="more than"):
        load_spec(tmp_path / "spec.yaml")


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_an_unreadable_file_is_told_apart(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableSpec, match="cannot read the file"):
        load_spec(tmp_path / name)


def test_a_byte_order_mark_and_other_line_ends_are_text(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes().replace(b"\n", b"\r\n"))
    assert load_spec(path) == load_spec(EXAMPLE)


@pytest.mark.parametrize(
    ("written", "value"),
    [("30 ms", 0.03), ("1.0 s", 1.0), ("250us", 0.00025), ("2 min", 120.0), ("1e-1 s", 0.1), ("0.5", 0.5), (2, 2)],
)
def test_seconds(written: object, value: float) -> None:
    assert seconds(written) == value


def test_fraction() -> None:
    assert (fraction("8 %"), fraction("0.08"), fraction(0.08)) == (0.08, 0.08, 0.08)


def test_diagnostics_as_json() -> None:
    _, diagnostics = check_spec(EXAMPLE, ["objective=costs"])
    assert diagnostics_to_json(diagnostics) == [
        {
            "severity": "error",
            "rule": "choice",
            "message": 'objective must be one of cost, throughput, latency, not "costs"',
            "hint": 'did you mean "cost"?',
            "path": "objective",
            "source": "--set objective=costs",
            "line": None,
            "column": None,
            "length": None,
        }
    ]


def test_the_caret_stands_under_wide_and_far_away_text(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"version: 1\nname: 日本 語\nmodel: {{{' ' * 200}laps: 1}}\n")
    with pytest.raises(SpecErrors) as caught:
        load_spec(path)
    lines = format_diagnostics(caught.value.diagnostics).splitlines()
    assert lines[lines.index("2 | name: 日本 語") + 1] == "  |       ^~~~~~~"
    far = next(index for index, line in enumerate(lines) if line.startswith("3 | ..."))
    assert len(lines[far]) < 140
    assert lines[far][lines[far + 1].index("^") :] == "laps: 1}"


def test_every_key_of_the_schema_is_described() -> None:
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    for field in (field for section in sections for field in section["properties"].values()):
        described = field if "description" in field else schema["$defs"][field["$ref"].rpartition("/")[2]]
        assert described["description"]
    names = {key for section in sections for key in section["properties"]}
    assert {address[-1] for address in addresses() if address[0] != "pins"} <= names
    assert set(schema["required"]) == {"version", "name", "model", "hardware", "workload"}


@pytest.mark.parametrize(
    ("workload", "valid"), [({"concurrency": 8}, True), ({"requests_per_s": 2.5}, True), ({}, False)]
)
def test_the_schema_wants_sequences_or_a_rate(workload: dict[str, float], valid: bool) -> None:
    lengths = {name: {"mean": 64, "p95": 128} for name in ("prompt_tokens", "output_tokens")}
    rest = {
        "version": 1,
        "name": "chat",
        "model": {"config": "llama-3.1-8b"},
        "hardware": {"chip": "v5e", "slice": "2x2"},
    }
    assert Draft202012Validator(json_schema()).is_valid({**rest, "workload": {**lengths, **workload}}) is valid


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_spec(EXAMPLE).name = "other"  # type: ignore[misc]
    assert Spec.model_config["extra"] == "forbid"


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from planner.spec import load_spec; load_spec(Path(sys.argv[1]));"
        "print(sorted({'jax', 'ortools', 'networkx', 'numpy', 'jinja2', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_max_chips_stands_for_every_slice_that_is_sold() -> None:
    spec = load_spec(EXAMPLE, ["hardware={chip: v5e, max_chips: 8}"])
    assert spec.hardware.slices == ("1x1", "2x2", "2x4")
    assert load_spec(EXAMPLE, ["hardware.slice=2x4", "hardware.max_chips=8"]).hardware.slices == spec.hardware.slices
    cubes = load_spec(EXAMPLE, ["hardware={chip: v5p, max_chips: 8960}"]).hardware.slices
    assert cubes[-1] == "16x20x28"
    assert len(set(cubes)) == len(cubes) > 50


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ("{chip: v5e, max_chips: 0}", "max_chips must be a whole number above 0, not 0"),
        ("{chip: v5e, max_chips: many}", 'max_chips must be a whole number above 0, not "many"'),
        ("{chip: v5p, max_chips: 2}", "no slice of v5p has at most 2 chips"),
        ("{chip: v5e, max_chips: 8, slice: 2x4}", "hardware has both slice and max_chips"),
    ],
)
def test_one_mistake_about_max_chips_is_one_error(hardware: str, message: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        load_spec(EXAMPLE, [f"hardware={hardware}"])
    assert [each.message for each in caught.value.diagnostics] == [message]


def test_an_escaped_pair_is_one_character(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(EXAMPLE.read_text() + 'pins: {"\\ud83d\\ude00": "\\ud800"}\n')
    with pytest.raises(SpecErrors, match="\N{GRINNING FACE}"):
        load_spec(path)
