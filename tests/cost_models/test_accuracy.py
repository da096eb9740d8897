"""The accuracy report on a file of four cases: two priced, one about memory, one that cannot be read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TOY = """
- &case
  id: toy-generate
  group: esti
  family: toy
  model: {name: toy, n_layers: 8, d_model: 18432, d_ff: 73728, ffn_act: swiglu, n_heads: 64, n_kv_heads: 1,
          d_head: 256, vocab: 256128, parallel_block: true}
  hardware: {chip: tpu_v4, n_chips: 64, topology: 4x4x4}
  dtype: {weights: int8, activations: bf16, kv_cache: bf16}
  phase: generate
  strategy: {ffn: WS 2D, attention: batch}
  batch: 64
  input_len: null
  context_len: 2048
  output_len: 64
  measured: [{metric: latency_per_step, value: 2.0, unit: ms}]
  tier: A
- <<: *case
  id: toy-memory
  group: fastertransformer
  hardware: {chip: a100_sxm_80gb, n_chips: 1}
  phase: memory
  strategy: {tp: 1}
  input_len: 128
  output_len: 8
  measured: [{metric: fits, value: true, unit: bool}]
- <<: *case
  id: toy-moe
  model: {name: toy, moe: {n_experts: 8}}
- <<: *case
  id: toy-experts
  group: sglang-jax
  family: sglcb-v7x
  model: {name: toy, n_layers: 61, d_model: 7168, d_ff: 18432, ffn_act: swiglu, n_heads: 128, n_kv_heads: 128,
          d_head: null, vocab: 129280, parallel_block: false, attention: MLA,
          mla: {q_lora: 1536, kv_lora: 512, qk_nope: 128, qk_rope: 64, v_head: 128},
          moe: {n_experts: 256, top_k: 8, d_ff_expert: 2048, n_shared_experts: 1, n_dense_layers: 3}}
  hardware: {chip: tpu_v7x, n_chips: 8, topology: 2x2x2}
  strategy: {tp: 16, ep: 16}
  measured: [{metric: latency_per_step, value: 40.0, unit: ms}]
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(TOY, encoding="utf-8")
    return path


def report(*arguments: str | Path) -> str:
    command = [sys.executable, ROOT / "benchmarks" / "accuracy.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_of_four_cases_is_scored_and_nothing_is_dropped_in_silence(toy: Path) -> None:
    found = json.loads(report(toy, "--format", "json"))
    labels = [row["label"] for row in found["groups"]]
    assert labels == ["esti, generate, tier A", "sglang-jax, generate, tier A, experts"]
    case = found["cases"]["toy-generate"]
    assert case["measured_s"] == pytest.approx(2e-3)
    assert case["roofline_s"] < case["predicted_s"] == pytest.approx(2e-3, rel=0.5)
    experts = found["cases"]["toy-experts"]
    assert experts["roofline_s"] == pytest.approx(671e9 / (8 * 7.4e12), rel=0.2)
    assert experts["roofline_s"] < experts["predicted_s"]
    assert (found["fits"]["ran"], found["fits"]["ran_right"]) == (3, 3)
    assert found["skipped"] == {"sizes of experts incomplete": ["toy-moe"]}


def test_the_text_names_what_is_skipped(toy: Path) -> None:
    text = report(toy)
    assert "esti, generate, tier A" in text
    assert "fits / does not fit: 3 of 3 right; 3 of 3 that ran, 0 of 0 that did not" in text
    assert "skipped: 1" in text
    assert "toy-moe" in text
