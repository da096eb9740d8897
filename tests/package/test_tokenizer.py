"""Text in and out: the tokenizer of a GGUF file, chat templates, and streams that cut no character."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.package import reference
from tests.package.cases import CASES
from tests.package.harness import load

HARD = "naïve 日本語 👩‍👩‍👧 ok, it's 1234 \n\n  two  spaces\tand tabs"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(CASES[0], tmp_path_factory.mktemp("tokenizer")).module("tokenizer")


@pytest.fixture(scope="module")
def smollm2(module: Any) -> Any:
    return module.load_tokenizer(reference.smollm2_path())


def test_gguf_text_round_trips(smollm2: Any) -> None:
    assert smollm2.decode(smollm2.encode(HARD)) == HARD


def test_digits_are_single_tokens(smollm2: Any) -> None:
    assert len(smollm2.encode("2024")) == 4
    assert smollm2.encode("Hello world") == smollm2.encode("Hello") + smollm2.encode(" world")


def test_chat_uses_the_template_of_the_file(smollm2: Any) -> None:
    ids = smollm2.encode_chat([{"role": "user", "content": "Hi"}])
    assert ids[0] == 1
    assert 2 in smollm2.end_ids
    assert ids == smollm2.encode(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "<|im_end|>" not in smollm2.decode(ids)


@pytest.mark.parametrize("text", [HARD, "👩‍👩‍👧" * 40, "a\ufffdb", " leading"])
def test_streams_join_to_the_whole_text(module: Any, smollm2: Any, text: str) -> None:
    ids = smollm2.encode(text)
    for cut in range(len(ids) + 1):
        stream = module.Detokenizer(smollm2)
        pieces = [stream.add(token) for token in ids[:cut]]
        assert not [piece for piece in pieces if "\ufffd" in piece and "\ufffd" not in text]
        assert "".join(pieces) + stream.finish() == smollm2.decode(ids[:cut])


def test_bytes_stream_whole_characters(module: Any) -> None:
    tokenizer = module.ByteTokenizer()
    stream = module.Detokenizer(tokenizer)
    assert [stream.add(token) for token in tokenizer.encode("é日")] == ["", "é", "", "", "日"]


def test_folder_tokenizer(module: Any, tmp_path: Path) -> None:
    vocabulary = {text: token for token, text in enumerate(["<s>", "</s>", "<eot>", "h", "i", "hi"])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[("h", "i")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>", "<eot>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    settings = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    tokenizer = module.load_tokenizer(tmp_path / "model.safetensors")
    assert tokenizer.end_ids == {1, 2}
    assert tokenizer.encode_chat([{"role": "user", "content": "hi"}]) == [0, 5]
    assert tokenizer.encode("hi") == [5]
    (tmp_path / "generation_config.json").unlink()
    assert module.load_tokenizer(tmp_path).end_ids == {1}


def test_a_folder_without_tokenizer_is_named(module: Any, tmp_path: Path) -> None:
    with pytest.raises(module.TokenizerError, match=r"no tokenizer\.json in"):
        module.load_tokenizer(tmp_path)


def test_a_template_may_refuse(module: Any) -> None:
    special = {"bos_token": "", "eos_token": "", "prefix": ""}
    tokenizer = module.FileTokenizer(None, "{{ raise_exception('no system role') }}", special, frozenset())
    with pytest.raises(module.TokenizerError, match="refuses the conversation: no system role"):
        tokenizer.encode_chat([])
    for mistaken in ("{{ messages[0].tools.first }}", "{% if %}"):
        with pytest.raises(module.TokenizerError, match="refuses the conversation"):
            module.FileTokenizer(None, mistaken, special, frozenset()).encode_chat([])
    with pytest.raises(module.TokenizerError, match="without a chat template"):
        module.FileTokenizer(None, None, special, frozenset()).encode_chat([])
