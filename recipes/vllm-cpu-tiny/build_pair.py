"""Build a tiny target and a draft that agrees with it part of the time, for speculative decoding on a CPU.

    ENGINE/bin/python build_pair.py FOLDER [--layers 24 --draft-layers 2 --damping 0.12 ...]

Nothing is downloaded or trained; the same seed gives the same files. The target is a random Llama. The draft is its
first layers with the same embeddings and head, so it guesses what the target will say; the target's further layers
add a damped disturbance, so it is sometimes wrong. Three properties make the pair a useful instrument:

* acceptance falls with the draft position and a draft costs a good part of a target step, so the best number of
  drafted tokens is neither the least nor the most;
* greedy output does not fall into a loop: attention picks few tokens, so the context keeps changing the answer;
* content matters, as in life: one channel of the residual stream carries "word or symbol". Words are answered with
  words and symbols with symbols, and the further layers disturb symbols more, so code is harder to draft than prose.

FOLDER appears at once, complete and checked, or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HEAD_SIZE = 64
KIND = 0  # the channel of the residual stream that says "word" (+1) or "symbol" (-1)
BOS, EOS, PAD = "<s>", "</s>", "<pad>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
SPECIAL = (BOS, EOS, PAD, *ROLES)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
FRONT_GAIN = 2.0  # of the layers that draft and target share
SHARPNESS = 2.0  # of attention: few tokens decide, so that greedy output keeps moving
KIND_PULL = 4.0  # how strongly the head prefers tokens of the context's kind
CHECKED_TOKENS = 128
PROSE = """
A lighthouse keeper writes down the weather every evening before the lamp is lit. The wind came from the west today
and the sea was grey until noon. Two ships passed close to the rocks and one of them answered the signal with a short
flag. In the village people say that the winter will be long because the birds left early and the onions have thick
skins. The baker does not believe a word of it, but he has ordered more flour than last year, and he keeps the oven
warm all through the night. Children walk to school along the harbour wall, count the boats, and argue about which one
is the fastest. When a machine measures something, the first question is how often the answer changes when nothing
else does. A good instrument shows its own noise before it shows a result. Whoever reads a number should know how it
was made, who made it, and what would have to happen for it to be wrong. The engineer turned the page, found the old
table, and compared it line by line with the new one. Most of the values were the same, some were better, and one of
them could not be explained at all.
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What can be chosen about the pair."""

    layers: int = 24
    draft_layers: int = 2
    hidden: int = 128
    vocabulary: int = 2048
    max_tokens: int = 16384
    damping: float = 0.12  # output scale of the layers that the draft lacks: more means less acceptance
    contrast: float = 1.3  # how much more they disturb symbols than words
    logit_scale: float = 6.0
    seed: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, default in asdict(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    arguments = vars(parser.parse_args())
    folder = arguments.pop("folder").absolute()
    if (folder / "pair.json").exists():
        print(f"{folder} is already built")
        return
    report = build(folder, Shape(**arguments))
    for kind, found in report["check"].items():
        print(f"{kind}: draft and target agree on {found['agreement']:.0%}, 4-grams {found['distinct_4grams']:.0%} new")
    print(f"target {report['parameters']['target']:,} and draft {report['parameters']['draft']:,} parameters")


def build(folder: Path, shape: Shape) -> dict:
    """Write ``folder`` with target, draft and pair.json, and return the latter."""
    tokenizer = build_tokenizer(shape)
    target, draft = build_models(shape, token_kinds(tokenizer))
    checked = check(target, draft, tokenizer)
    require_useful(checked)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name, model in (("target", target), ("draft", draft)):
        model.save_pretrained(part / name)
        tokenizer.save_pretrained(part / name)
    report = {
        "shape": asdict(shape),
        "check": checked,
        "parameters": {"target": target.num_parameters(), "draft": draft.num_parameters()},
        "sha256": {name: _sha256(part / name / "model.safetensors") for name in ("target", "draft")},
    }
    (part / "pair.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)  # without pair.json it is no pair
    part.rename(folder)
    return report


def build_tokenizer(shape: Shape) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE learned from seeded text: shuffled prose, made-up words, numbers and code."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=shape.vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(_learning_text(shape.seed), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
    )


def _learning_text(seed: int) -> list[str]:
    chance = random.Random(seed)
    known = [word.strip(".,") for word in PROSE.split()]
    parts = [
        first + vowel + last for first in "bdfgklmnprstvw" for vowel in "aeiou" for last in ("", "n", "r", "s", "l")
    ]
    made_up = ["".join(chance.choices(parts, k=chance.randint(1, 3))) for _ in range(1200)]
    words = known * 3 + made_up
    lines = [" ".join(chance.choices(words, k=16)) + "." for _ in range(2000)]
    lines += ["; ".join(f"{chance.random() * 1000:.2f}" for _ in range(8)) for _ in range(500)]
    lines += [
        f"    {a}[{chance.randint(0, 99)}] = {b}({c}, {{'{a}': {b}}})" for a, b, c in _triples(chance, known, 900)
    ]
    return lines


def _triples(chance: random.Random, words: list[str], count: int) -> list[list[str]]:
    return [chance.choices(words, k=3) for _ in range(count)]


def token_kinds(tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Return +1 for a token of letters, with or without a space before it, and -1 for every other one."""
    texts = [tokenizer.decode([number]).strip() for number in range(len(tokenizer))]
    return torch.tensor([1.0 if text.isascii() and text.isalpha() else -1.0 for text in texts])


@torch.no_grad()
def build_models(shape: Shape, kinds: torch.Tensor) -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """Return target and draft, in bfloat16."""
    torch.manual_seed(shape.seed)
    target = LlamaForCausalLM(_config(shape, shape.layers, len(kinds)))
    _randomise(target)
    _tie_to_kinds(target, shape, kinds)
    for number, layer in enumerate(target.model.layers):
        _keep_kind_apart(layer)
        shared = number < shape.draft_layers
        _scale_output(layer, FRONT_GAIN if shared else shape.damping)
        if not shared:  # a gate that words close: the disturbance is stronger where the context is symbols
            layer.mlp.gate_proj.weight[:, KIND] = -shape.contrast
    _average_kind(target.model.layers[0])
    draft = LlamaForCausalLM(_config(shape, shape.draft_layers, len(kinds)))
    own = draft.state_dict()
    draft.load_state_dict({name: value for name, value in target.state_dict().items() if name in own})
    return target.to(torch.bfloat16).eval(), draft.to(torch.bfloat16).eval()


def _config(shape: Shape, layers: int, vocabulary: int) -> LlamaConfig:
    heads = shape.hidden // HEAD_SIZE
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=2 * shape.hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=shape.max_tokens,
        bos_token_id=SPECIAL.index(BOS),
        eos_token_id=SPECIAL.index(EOS),
        pad_token_id=SPECIAL.index(PAD),
        tie_word_embeddings=False,
    )


def _randomise(model: LlamaForCausalLM) -> None:
    for parameter in model.parameters():
        if parameter.dim() == 2:  # the norms stay at one
            parameter.normal_(0.0, 1.0 / math.sqrt(parameter.shape[1]))
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.mul_(SHARPNESS)
        layer.self_attn.k_proj.weight.mul_(SHARPNESS)


def _tie_to_kinds(model: LlamaForCausalLM, shape: Shape, kinds: torch.Tensor) -> None:
    """Put each token's kind into its embedding, and make the head prefer tokens of the kind that it finds."""
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    embedding.normal_(0.0, 1.0)
    head.normal_(0.0, shape.logit_scale / math.sqrt(shape.hidden))
    embedding[:, KIND] = kinds
    head[:, KIND] = kinds * KIND_PULL
    head[: len(SPECIAL)] = 0.0  # never the best answer


def _keep_kind_apart(layer: torch.nn.Module) -> None:
    """The random features neither read nor write the kind."""
    attention, mlp = layer.self_attn, layer.mlp
    for reader in (attention.q_proj, attention.k_proj, attention.v_proj, mlp.gate_proj, mlp.up_proj):
        reader.weight[:, KIND] = 0.0
    attention.o_proj.weight[KIND] = 0.0
    mlp.down_proj.weight[KIND] = 0.0


def _scale_output(layer: torch.nn.Module, factor: float) -> None:
    layer.self_attn.o_proj.weight.mul_(factor)
    layer.mlp.down_proj.weight.mul_(factor)


def _average_kind(layer: torch.nn.Module) -> None:
    """Make the first head look at all tokens alike and add the mean kind of the context to the kind channel."""
    attention = layer.self_attn
    attention.q_proj.weight[:HEAD_SIZE] = 0.0
    attention.v_proj.weight[0] = 0.0
    attention.v_proj.weight[0, KIND] = 1.0
    attention.o_proj.weight[:, 0] = 0.0
    attention.o_proj.weight[KIND, 0] = 2.0 * FRONT_GAIN


@torch.no_grad()
def check(target: LlamaForCausalLM, draft: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> dict[str, dict]:
    """Let the target answer greedily and see how often the draft would have said the same, by kind of prompt."""
    prompts = {
        "prose": PROSE,
        "code": "\n".join(f"    total[{n}] = scale(x[{n * 7 % 10}], {{'k': {n}}})" for n in range(40)),
    }
    found = {}
    for kind, text in prompts.items():
        prompt = tokenizer(text, return_tensors="pt").input_ids[:, :256]
        whole = target.generate(prompt, max_new_tokens=CHECKED_TOKENS, min_new_tokens=CHECKED_TOKENS, do_sample=False)
        start = prompt.shape[1]
        said = whole[0, start:].tolist()
        guessed = draft(whole).logits[0, start - 1 : -1].argmax(-1).tolist()
        four_grams = [tuple(said[at : at + 4]) for at in range(len(said) - 3)]
        found[kind] = {
            "agreement": sum(one == other for one, other in zip(said, guessed, strict=True)) / len(said),
            "distinct_4grams": len(set(four_grams)) / len(four_grams),
            "sample": tokenizer.decode(said[:16]),
        }
    return found


def require_useful(checked: dict[str, dict]) -> None:
    """Refuse a pair on which speculation could not be told from its absence, or whose answers are a loop."""
    agreement = checked["prose"]["agreement"]
    if not 0.5 <= agreement <= 0.97:
        raise SystemExit(f"error: draft and target agree on {agreement:.0%} of prose: change --damping or --layers")
    for kind, found in checked.items():
        if found["distinct_4grams"] < 0.9:
            raise SystemExit(f"error: the answer to {kind} repeats itself: change --seed")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
