"""Weights in and padded: safetensors in one file or several, int8, and files that hold another model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.package import reference
from tests.package.cases import CASES
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
    return package.module("checkpoint").load_weights(source, config, package.mesh)


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


def test_missing_unknown_and_misshapen_tensors_are_named(
    package: Package, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    error = package.module("checkpoint").CheckpointError
    path = tmp_path / "model.safetensors"
    save_file({name: tensor for name, tensor in tensors.items() if "layers.1.mlp.up" not in name}, path)
    with pytest.raises(error, match=r"lacks 1 of the planned .* such as model\.layers\.1\.mlp\.up_proj\.weight"):
        opened(package, path)
    save_file({**tensors, "model.layers.0.self_attn.q_proj.bias": np.zeros(3, np.float32)}, path)
    with pytest.raises(error, match=r"holds what the planned model lacks \(1\), such as .*q_proj\.bias"):
        opened(package, path)
    save_file({**tensors, "model.norm.weight": np.zeros(3, np.float32)}, path)
    with pytest.raises(error, match=r"final_norm is \(3,\) in the checkpoint; the planned model has \(64,\)"):
        weights(package, opened(package, path))
    with pytest.raises(error, match="no weights at"):
        opened(package, tmp_path / "absent.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=r"holds neither model\.safetensors nor"):
        opened(package, tmp_path / "empty")


def test_a_gguf_of_another_model_is_refused(package: Package) -> None:
    with pytest.raises(
        package.module("checkpoint").CheckpointError, match=r"holds what the planned model lacks|lacks \d+ of"
    ):
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
    quantise = package.module("checkpoint").quantise
    matrix = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    matrix[2] = 0
    values, scales = quantise(matrix, (1,))
    assert values.dtype == np.int8
    np.testing.assert_allclose(values * scales[:, None], matrix, atol=np.abs(matrix).max() / 254 + 1e-7)
    assert scales[2] == 1
    assert not values[2].any()
    assert set(np.abs(values).max(axis=1)) == {0, 127}
