"""Weights in and padded: safetensors in one file or several, int8, and files that hold another model."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.package import reference
from tests.package.cases import CASES, INT8
from tests.package.harness import Package, load
from tests.render.plans import SMOLLM2


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    case = next(case for case in CASES if case.name == "heads_by_batch")
    return load(case, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def tensors(package: Package) -> dict[str, np.ndarray]:
    """A random model under Hugging Face's names."""
    checkpoint, config = package.module("checkpoint"), package.module("config").MODEL
    random = checkpoint.RandomCheckpoint(config)
    whole = ("embedding", "final_norm", "lm_head")
    found = {checkpoint.HUGGING_FACE[part]: random.read(part) for part in whole}
    for layer in range(config.layers):
        for part in checkpoint.LAYER_PARTS:
            found[f"model.layers.{layer}.{checkpoint.HUGGING_FACE[part]}"] = random.read(part, layer)
    return found


def weights(package: Package, source: Any) -> Any:
    config = package.module("config").MODEL
    return package.module("loading").load_weights(source, config, package.mesh)


def opened(package: Package, path: Path) -> Any:
    return package.module("checkpoint").open_checkpoint(path, package.module("config").MODEL)


def test_one_file_and_several_load_alike(package: Package, tensors: dict[str, np.ndarray], tmp_path: Path) -> None:
    wanted = weights(package, package.module("checkpoint").RandomCheckpoint(package.module("config").MODEL))
    save_file(tensors, tmp_path / "model.safetensors")
    split = tmp_path / "split"
    split.mkdir()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, split / file)
    index = {"weight_map": {name: file for file, part in halves.items() for name in part}}
    (split / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors", split):
        jax.tree.map(np.testing.assert_array_equal, weights(package, opened(package, path)), wanted)


def test_bfloat16_files_load(package: Package, tensors: dict[str, np.ndarray], tmp_path: Path) -> None:
    halved = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in tensors.items()}
    save_file(halved, tmp_path / "model.safetensors")
    found = weights(package, opened(package, tmp_path))
    assert found.layers.w_q.dtype == np.float32
    np.testing.assert_array_equal(found.final_norm, halved["model.norm.weight"].astype(np.float32))


def test_every_mismatch_is_told_before_anything_is_loaded(
    package: Package, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    changed = {name: tensor for name, tensor in tensors.items() if "layers.1.mlp.up" not in name}
    changed["model.layers.0.self_attn.q_proj.bias"] = np.zeros(3, np.float32)
    changed["model.norm.weight"] = np.zeros(3, np.float32)
    changed["lm_head.weight"] = changed["lm_head.weight"].astype(np.float64)
    save_file(changed, path)
    with pytest.raises(package.module("checkpoint").CheckpointError) as told:
        opened(package, path)
    assert str(told.value).splitlines() == [
        f"{path} does not hold the planned model:",
        "  lm_head.weight is F64",
        "  model.layers.1.mlp.up_proj.weight is missing",
        "  model.layers.0.self_attn.q_proj.bias is no part of the planned model",
        "  model.norm.weight is (3,); the plan has (64,)",
    ]


def test_paths_that_hold_no_model_are_named(package: Package, tmp_path: Path) -> None:
    error = package.module("checkpoint").CheckpointError
    with pytest.raises(error, match="no weights at"):
        opened(package, tmp_path / "absent.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=r"holds neither model\.safetensors nor"):
        opened(package, tmp_path / "empty")
    index = {"weight_map": {"lm_head.weight": "a.safetensors"}}
    (tmp_path / "empty" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(error, match=r"index\.json names a\.safetensors, which .*empty does not hold"):
        opened(package, tmp_path / "empty")


@pytest.fixture(scope="module")
def int8_package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return load(next(case for case in INT8 if case.name == "pieces_int8"), tmp_path_factory.mktemp("int8"))


def as_int8(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The matrices of the layers as int8 with a scale per output, as quantised checkpoints store them."""
    found = {}
    for name, tensor in tensors.items():
        if ".layers." not in name or tensor.ndim == 1:
            found[name] = tensor
            continue
        scale = np.abs(tensor).max(axis=1, keepdims=True) / 127 * 1.25  # no value reaches 127: not what we would make
        found[name], found[f"{name}_scale"] = np.rint(tensor / scale).astype(np.int8), scale.astype(np.float32)
    return found


def test_int8_tensors_are_taken_as_they_are_stored(
    int8_package: Package, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    stored = as_int8(tensors)
    save_file(stored, tmp_path / "model.safetensors")
    found = weights(int8_package, opened(int8_package, tmp_path)).layers
    for layer in range(2):
        at = f"model.layers.{layer}.mlp."
        for index, part in enumerate(("gate_proj", "up_proj")):
            wanted = stored[f"{at}{part}.weight"]
            np.testing.assert_array_equal(found.w_in[layer, index, :, : wanted.shape[0]], wanted.T)
            scale = stored[f"{at}{part}.weight_scale"][:, 0]
            np.testing.assert_array_equal(found.w_in_scale[layer, index, : scale.shape[0]], scale)
        np.testing.assert_array_equal(found.w_down_scale[layer], stored[f"{at}down_proj.weight_scale"][:, 0])
        o = stored[f"model.layers.{layer}.self_attn.o_proj.weight"]
        q = stored[f"model.layers.{layer}.self_attn.q_proj.weight"]
        assert {bytes(head) for head in np.asarray(found.w_q[layer])} >= {bytes(head) for head in q.reshape(8, 16, 64)}
        assert {bytes(head) for head in np.asarray(found.w_o[layer])} >= {
            bytes(head) for head in o.T.reshape(8, 16, 64)
        }


def test_int8_values_need_their_scales_and_an_int8_plan(
    package: Package, int8_package: Package, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    stored, path = as_int8(tensors), tmp_path / "model.safetensors"
    save_file(stored, path)
    with pytest.raises(package.module("checkpoint").CheckpointError, match=r"q_proj\.weight is I8"):
        opened(package, path)
    del stored["model.layers.1.mlp.down_proj.weight_scale"]
    save_file(stored, path)
    error = int8_package.module("checkpoint").CheckpointError
    with pytest.raises(error, match=r"down_proj\.weight_scale is missing, the scales of int8 values"):
        opened(int8_package, path)


class Counting:
    """A checkpoint that counts the values that are read of each part."""

    def __init__(self, checkpoint: Any) -> None:
        self.checkpoint, self.read_values = checkpoint, Counter[str]()

    def read(self, part: str, layer: int | None = None, *cut: slice) -> np.ndarray:
        found: np.ndarray = self.checkpoint.read(part, layer, *cut)
        self.read_values[part] += found.size
        return found

    def scales(self, *arguments: Any) -> Any:
        return self.checkpoint.scales(*arguments)


def test_every_matrix_is_read_once_over_all_chips(package: Package, int8_package: Package) -> None:
    for each in (package, int8_package):
        checkpoint, config = each.module("checkpoint"), each.module("config").MODEL
        counting = Counting(checkpoint.RandomCheckpoint(config))
        weights(each, counting)
        size = config.layers * config.d_model * config.d_ff
        assert counting.read_values["gate"] == size * (1 if each is package else 3)  # scales need whole outputs
        assert counting.read_values["embedding"] == config.vocab * config.d_model


def test_a_gguf_of_another_model_is_refused(package: Package) -> None:
    with pytest.raises(package.module("checkpoint").CheckpointError, match="does not hold the planned model"):
        opened(package, reference.smollm2_path())


def test_gguf_matrices_equal_the_independent_reading(tmp_path: Path) -> None:
    case = replace(CASES[0], name="smollm2", model=SMOLLM2)
    package = load(case, tmp_path)
    found = package.module("checkpoint").GgufCheckpoint(reference.smollm2_path(), package.module("config").MODEL)
    read = reference.gguf_reader(reference.smollm2_path(), SMOLLM2)
    for part in package.module("checkpoint").LAYER_PARTS:
        np.testing.assert_array_equal(found.read(part, 17), read(part, 17))


def test_quantised_channels_keep_their_largest_value(tmp_path: Path) -> None:
    package = load(replace(CASES[0], name="int8", weights="int8"), tmp_path)
    quantise = package.module("loading").quantise
    matrix = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    matrix[2] = 0
    values, scales = quantise(matrix, (1,))
    assert values.dtype == np.int8
    np.testing.assert_allclose(values * scales[:, None], matrix, atol=np.abs(matrix).max() / 254 + 1e-7)
    assert scales[2] == 1
    assert not values[2].any()
    assert set(np.abs(values).max(axis=1)) == {0, 127}
