"""The bundled shapes load to published parameter totals and known bytes of keys and values."""

import csv
import json
from pathlib import Path

import pytest

from planner.spec import (
    Model,
    Position,
    bundled_models,
    is_packaged,
    kv_bytes_per_token,
    parameter_count,
    unpackaged_features,
)
from planner.spec.hf import BUNDLED, import_config
from planner.spec.hf_defaults import CLASS_DEFAULTS, TEXT_CLASSES
from planner.spec.hf_families import FAMILIES

TABLE = Path(__file__).parents[1] / "reference" / "model_shapes.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))
PLACE = Position("spec.yaml", 1)


def shape(name: str, folder: Path = Path("/nowhere")) -> Model:
    sizes, problems = import_config(name, folder, PLACE)
    assert not problems
    return Model.model_validate(sizes)


def written(folder: Path, **fields: object) -> Model:
    (folder / "config.json").write_text(json.dumps(fields))
    return shape("config.json", folder)


def test_the_table_covers_every_bundled_model() -> None:
    assert tuple(row["model"] for row in ROWS) == bundled_models()
    assert len(ROWS) == 26


@pytest.mark.parametrize("row", [pytest.param(row, id=row["model"]) for row in ROWS])
def test_parameters_and_kv_bytes_agree_with_the_table(row: dict[str, str]) -> None:
    model = shape(row["model"])
    assert parameter_count(model) == int(row["parameters"])
    assert kv_bytes_per_token(model, "bf16") / 1024 == pytest.approx(float(row["kv_kib_per_token"]), abs=0.05)
    assert kv_bytes_per_token(model, "float32") == 4 * kv_bytes_per_token(model, "int8")
    assert model.vocab == int(row["vocab"])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["model"]) for row in ROWS if "latent" not in row["heads"]])
def test_heads_agree_with_the_table(row: dict[str, str]) -> None:
    model = shape(row["model"])
    assert (f"{model.q_heads}/{model.kv_heads}", str(model.head_dim)) == (row["heads"], row["head_dim"])


def test_the_bundled_files_say_where_they_come_from_and_hold_no_numbers_of_ours() -> None:
    for path in BUNDLED.glob("*.json"):
        data = json.loads(path.read_text())
        assert data["_source"], path.name
        assert "_resolved" not in data, path.name


def test_a_sparse_gemma_3_takes_its_class_defaults() -> None:
    model = shape("gemma-3-12b")
    assert (model.head_dim, model.vocab, model.max_positions) == (256, 262208, 131072)
    assert (model.rope.theta, model.norm_eps, model.tied_embeddings) == (1e6, 1e-6, True)
    assert model.sliding_window is not None
    assert (model.sliding_window.tokens, model.sliding_window.full_every) == (1024, 6)
    assert model.rope.scaling is not None
    assert (model.rope.scaling.type, model.rope.scaling.factor) == ("linear", 8.0)


def test_windows() -> None:
    def windows(name: str) -> tuple[int, int | None] | None:
        limit = shape(name).sliding_window
        return (limit.tokens, limit.full_every) if limit else None

    assert windows("mistral-7b-v0.1") == (4096, None)
    assert windows("mistral-7b-v0.3") is None
    assert windows("gemma-2-9b") == (4096, 2)
    assert windows("gpt-oss-120b") == (128, 2)
    assert windows("llama-4-scout-17b-16e") == (8192, 4)
    assert windows("qwen3-8b") is None


def test_what_is_packaged() -> None:
    packaged = {name for name in bundled_models() if is_packaged(shape(name))}
    llamas = {name for name in bundled_models() if name.startswith(("llama-2", "llama-3", "smollm2"))}
    assert packaged == llamas | {"mistral-7b-v0.3"}
    assert unpackaged_features(shape("mistral-7b-v0.1")) == ("sliding windows",)
    assert "mixture of experts" in unpackaged_features(shape("mixtral-8x7b"))


def test_every_family_has_defaults_and_loads_from_them_alone(tmp_path: Path) -> None:
    assert set(FAMILIES) == set(CLASS_DEFAULTS)
    for family in FAMILIES:
        model = written(tmp_path, model_type=family)
        assert model.family == family
        assert parameter_count(model) > 10**9


def test_a_text_model_inside_a_larger_one(tmp_path: Path) -> None:
    for outer, inner in TEXT_CLASSES.items():
        model = written(
            tmp_path, model_type=outer, vocab_size=7, text_config={"hidden_size": 128, "num_hidden_layers": 2}
        )
        assert (model.family, model.d_model, model.layers) == (inner, 128, 2)


def test_a_written_field_beats_the_class_default_and_null_means_derive(tmp_path: Path) -> None:
    model = written(tmp_path, model_type="llama", hidden_size=512, num_attention_heads=8, num_key_value_heads=None)
    assert (model.q_heads, model.kv_heads, model.head_dim) == (8, 8, 64)


def test_the_newer_spelling_of_rotary_parameters(tmp_path: Path) -> None:
    parameters = {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0}
    model = written(tmp_path, model_type="llama", rope_parameters=parameters)
    assert model.rope.theta == 5e5
    assert model.rope.scaling is not None
    assert model.rope.scaling.type == "linear"
    by_layer = written(tmp_path, model_type="gemma3_text", rope_parameters={"full_attention": parameters})
    assert by_layer.rope == model.rope


def test_layer_types_set_the_pattern_of_windows(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2 + ["sliding_attention"]
    model = written(tmp_path, model_type="gemma3_text", num_hidden_layers=7, layer_types=kinds)
    assert model.sliding_window is not None
    assert model.sliding_window.full_every == 3
    assert (
        written(tmp_path, model_type="gpt_oss", num_hidden_layers=1, layer_types=["full_attention"]).sliding_window
        is None
    )


def test_falcon_heads(tmp_path: Path) -> None:
    assert written(tmp_path, model_type="falcon").kv_heads == 1
    assert written(tmp_path, model_type="falcon", multi_query=False).kv_heads == 71
    grouped = written(
        tmp_path,
        model_type="falcon",
        new_decoder_architecture=True,
        num_attention_heads=128,
        num_kv_heads=8,
        hidden_size=8192,
    )
    assert (grouped.kv_heads, grouped.parallel_block) == (8, False)


def test_experts_in_some_layers_only(tmp_path: Path) -> None:
    def dense_layers(**fields: object) -> int:
        moe = written(tmp_path, **fields).moe
        assert moe is not None
        return moe.dense_layers

    assert dense_layers(model_type="llama4_text", interleave_moe_layer_step=2) == 24
    assert dense_layers(model_type="qwen3_moe", decoder_sparse_step=2, mlp_only_layers=[0, 1, 99]) == 13


def test_an_unread_field_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{\n  "model_type": "llama",\n  "mystery": 3\n}\n')
    sizes, problems = import_config("config.json", tmp_path, PLACE)
    assert sizes["family"] == "llama"
    assert [(p.severity, p.position.line) for p in problems] == [("warning", 3)]


def test_a_name_is_a_path_before_it_is_a_bundled_model(tmp_path: Path) -> None:
    names = ("llama-3.1-8b", "llama-3.1-8b.json", "hf_configs/llama-3.1-8b.json")
    assert len({shape(name) for name in names}) == 1
    (tmp_path / "llama-3.1-8b").mkdir()
    (tmp_path / "llama-3.1-8b" / "config.json").write_text('{"model_type": "llama"}')
    assert shape("llama-3.1-8b", tmp_path).vocab == 32000


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "../..", "/"])
def test_a_name_no_file_has_is_a_diagnostic(name: str) -> None:
    sizes, problems = import_config(name, Path("/nowhere"), PLACE)
    assert not sizes
    assert [problem.rule for problem in problems] == ["config"]


def test_a_config_that_is_not_text_is_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    _, problems = import_config("config.json", tmp_path, PLACE)
    assert [problem.rule for problem in problems] == ["unreadable"]
