# Rendered from plan.yaml (sha256 90498424). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Text to tokens and back: the tokenizer and chat template that come with the weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

Message = dict[str, str]
LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL_TOKEN, USER_TOKEN = 3, 4  # GGUF token types


class TokenizerError(ValueError):
    """A tokenizer that is missing or of a kind not known here."""


class Tokenizer(Protocol):
    """What the command line needs."""

    end_ids: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Tokens of a raw prompt."""

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of a conversation, up to where the answer begins."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens."""

    def for_grammars(self) -> Any:
        """The tokens as llguidance takes them: a name, the text of a tokenizer.json, or its TokenizerWrapper."""


class ByteTokenizer:
    """Bytes as tokens, for models with random weights."""

    end_ids: frozenset[int] = frozenset()

    def encode(self, text: str) -> list[int]:
        """The UTF-8 bytes of `text`."""
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The bytes of all messages, line by line."""
        return self.encode("\n".join(message["content"] for message in messages) + "\n")

    def decode(self, ids: Sequence[int]) -> str:
        """Text of those `ids` that are bytes."""
        return bytes(token for token in ids if token < 256).decode(errors="replace")

    def for_grammars(self) -> str:
        """Bytes as tokens."""
        return "byte"


class FileTokenizer:
    """A tokenizer read from a file, with its chat template."""

    def __init__(self, backend: Any, template: str | None, special: dict[str, str], end_ids: frozenset[int]) -> None:
        """`special` holds the texts bos_token and eos_token; bos_token is "" when prompts do not begin with one."""
        self._backend, self._template, self._special, self.end_ids = backend, template, special, end_ids

    def encode(self, text: str) -> list[int]:
        """Tokens of a raw prompt, begun as the model expects."""
        return self._ids(self._special["prefix"] + text)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of a conversation under the model's chat template."""
        if self._template is None:
            raise TokenizerError("these weights come without a chat template; use `generate` instead of `chat`")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        try:
            template = environment.from_string(self._template)
            text = template.render(messages=messages, add_generation_prompt=True, **self._special)
        except TemplateError as error:
            raise TokenizerError(f"the chat template refuses the conversation: {error}") from error
        return self._ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens."""
        return str(self._backend.decode(list(ids), skip_special_tokens=True))

    def for_grammars(self) -> str:
        """The text of its tokenizer.json."""
        return str(self._backend.to_str())

    def _ids(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False).ids)


def _refuse(message: str) -> None:
    raise TokenizerError(f"the chat template refuses the conversation: {message}")


class Detokenizer:
    """Text of a stream of tokens, piece by piece; a character that several tokens share comes out whole.

    Bytes that are no whole character are decoded as marks, one for a byte at most. Those at the end are held back: the
    next token may complete them. More than `MOST_HELD` of them cannot be part of one.
    """

    MARK = "\ufffd"
    MOST_HELD = 8  # a decoder may give up a run of byte tokens whole, the character before the last among them
    KEPT = 16  # tokens among which a stream that goes on without a whole character is told

    def __init__(self, tokenizer: Tokenizer) -> None:
        """A stream at its beginning."""
        self._tokenizer = tokenizer
        self._window: list[int] = []  # what is decoded: tokens already told, as spacing depends on them, and new ones
        self._new = 0  # tokens since the text was last told whole
        self._told = 0  # letters of the window's text

    def add(self, token: int) -> str:
        """The text that is certain now that `token` came."""
        self._window.append(token)
        self._new += 1
        text = self._tokenizer.decode(self._window)
        held = len(text) - len(text.rstrip(self.MARK))
        piece = self._tell(text, len(text) - (held if held <= self.MOST_HELD else 1))
        if not held and not piece:
            self._window.pop()  # a token without text
            self._new -= 1
        elif not held:
            self._shorten(self._new, 0)
        elif self._new > 2 * self.KEPT:
            self._shorten(self.KEPT, len(text) - self._told)
        return piece

    def finish(self) -> str:
        """What is left when the stream ends."""
        text = self._tokenizer.decode(self._window)
        return self._tell(text, len(text))

    def _tell(self, text: str, end: int) -> str:
        piece = text[self._told : end]
        self._told = max(self._told, end)
        return piece

    def _shorten(self, tokens: int, held: int) -> None:
        """Keep so many tokens of the window, of whose text so many letters are held back."""
        self._window = self._window[-tokens:]
        self._new = 0 if not held else tokens
        self._told = len(self._tokenizer.decode(self._window)) - held


def load_tokenizer(weights: Path) -> FileTokenizer:
    """The tokenizer inside a GGUF file, or beside safetensors."""
    return _from_gguf(weights) if weights.suffix == ".gguf" else _from_folder(weights)


def _from_gguf(path: Path) -> FileTokenizer:
    import gguf
    from tokenizers import AddedToken, decoders, models
    from tokenizers import Tokenizer as Backend

    fields = gguf.GGUFReader(path).fields

    def field(name: str, default: Any = None) -> Any:
        return fields[name].contents() if name in fields else default

    if field("tokenizer.ggml.model") != "gpt2":
        raise TokenizerError(f"{path} has a tokenizer of kind {field('tokenizer.ggml.model')}; known here: gpt2 (BPE)")
    texts, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    words = field("tokenizer.ggml.pre", "default")
    vocabulary = {text: token for token, text in enumerate(texts)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=words == "llama-bpe"))
    backend.pre_tokenizer = _word_splitter(words)
    backend.decoder = decoders.ByteLevel()
    for special, kind in ((True, CONTROL_TOKEN), (False, USER_TOKEN)):
        added = [text for text, found in zip(texts, kinds, strict=True) if found == kind]
        backend.add_tokens([AddedToken(text, special=special, normalized=False) for text in added])
    ends = [field(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    bos, eos = (texts[field(f"tokenizer.ggml.{name}_token_id", 0)] for name in ("bos", "eos"))
    prefix = bos if field("tokenizer.ggml.add_bos_token", False) else ""
    special_texts = {"bos_token": bos, "eos_token": eos, "prefix": prefix}
    end_ids = frozenset(int(end) for end in ends if end is not None)
    return FileTokenizer(backend, field("tokenizer.chat_template"), special_texts, end_ids)


def _word_splitter(name: str) -> Any:
    """How text is cut into words before BPE, by the name that GGUF files use."""
    from tokenizers import Regex, pre_tokenizers

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in ("smollm", "codeshell", "refact", "starcoder"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in ("llama-bpe", "llama3"):
        words = pre_tokenizers.Split(Regex(LLAMA_3_WORDS), "isolated")
        return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if name in ("default", "gpt-2"):
        return byte_level
    raise TokenizerError(f"the file splits words as {name!r}; known here: smollm, llama-bpe, gpt-2 and their kin")


def _from_folder(weights: Path) -> FileTokenizer:
    from tokenizers import Tokenizer as Backend

    folder = weights if weights.is_dir() else weights.parent
    if not (folder / "tokenizer.json").is_file():
        raise TokenizerError(f"no tokenizer.json in {folder}")
    settings, generation, model = (
        json.loads((folder / name).read_text(encoding="utf-8")) if (folder / name).is_file() else {}
        for name in ("tokenizer_config.json", "generation_config.json", "config.json")
    )
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    ends = generation.get("eos_token_id", model.get("eos_token_id"))
    bos, eos = _text(settings.get("bos_token")), _text(settings.get("eos_token"))
    if ends is None:
        ends = backend.token_to_id(eos)
    end_ids = [] if ends is None else [ends] if isinstance(ends, int) else ends
    begins = backend.encode("a").ids[:1] == [backend.token_to_id(bos)] if bos else False
    special = {"bos_token": bos, "eos_token": eos, "prefix": bos if begins else ""}
    return FileTokenizer(backend, settings.get("chat_template"), special, frozenset(end_ids))


def _text(token: Any) -> str:
    """The text of a special token, which may be written as a mapping."""
    return str(token["content"] if isinstance(token, dict) else token or "")
