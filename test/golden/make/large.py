#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""large.py OUT [--only a,b]: reference cases that reach the fast kernels of a GPU, as folders in OUT for `fk-host verify`.

Heads of 64 and 128 elements, hundreds of tokens over many pages, sliding windows that end inside; computed by HuggingFace
transformers on the CPU in float32. They are a few MB each and take seconds, so they are made where they are used and not kept
(scripts/gpu_check.sh). Those of KEPT are small, in test/golden, and made only when they are named. Needs torch, transformers and safetensors.
"""
import argparse, json, pathlib

import torch, transformers
from safetensors.torch import save_file

SEED = 11
SIZES = dict(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=128, max_position_embeddings=1024, pad_token_id=0, bos_token_id=1, eos_token_id=2)
HALF = dict(num_attention_heads=8, num_key_value_heads=2, head_dim=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128)
CASES = {  # name: (class prefix, what differs from SIZES, tokens in a row)
    "llama_d128": ("Llama", dict(rope_parameters=LLAMA3), 333),
    "llama_d64": ("Llama", dict(HALF, rope_parameters=LLAMA3), 257),
    "qwen3_d128": ("Qwen3", {}, 300),
    "mistral_swa_d128": ("Mistral", dict(sliding_window=100), 400),
    "mixtral_d128": ("Mixtral", dict(num_local_experts=8, num_experts_per_tok=2), 203),
    "gpt_oss_d64": ("GptOss", dict(HALF, num_local_experts=4, num_experts_per_tok=2, sliding_window=128, intermediate_size=512), 260),
}
# Heads for eight ranks, and fewer key/value heads; what else differs between versions of transformers is left as it is.
EIGHT = dict(vocab_size=251, hidden_size=64, intermediate_size=120, num_hidden_layers=3, num_attention_heads=8,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=256)
KEPT = {
    "llama_wide": ("Llama", EIGHT, 24),
    "mixtral_wide": ("Mixtral", dict(EIGHT, num_hidden_layers=2, intermediate_size=72, num_local_experts=11, num_experts_per_tok=2, sliding_window=None), 24, 12),
}


def unit_gain(model, seed):
    """Random parameters, so that a wrong mask, rotation or scale shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if p.dim() <= 1:
            p.copy_(1 + 0.2 * noise if "norm" in name else p + 0.1 * noise)
        elif "embed" in name:
            p.copy_(noise)
        else:
            inputs = max(p.shape[-2:]) if p.dim() == 3 else p[0].numel()
            p.copy_(1.5 * noise / inputs**0.5)


@torch.no_grad()
def make(folder, kind, sizes, tokens, seed=SEED):
    config = getattr(transformers, kind + "Config")(**dict(SIZES, **sizes))
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config).eval().float()
    unit_gain(model, seed)
    ids = torch.randint(3, config.vocab_size, (2, tokens), generator=torch.Generator().manual_seed(seed + 1))
    seen = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    row = ids[:1]
    for _ in range(8):  # without a cache: the reference for any cache
        row = torch.cat([row, model(input_ids=row, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size="1GB")
    golden = {"in.input_ids": ids, "out.logits": seen.logits, "out.greedy": row[:, tokens:]}
    golden |= {f"mid.hidden.{i}": h for i, h in enumerate(seen.hidden_states)}
    save_file({name: t.contiguous().clone() for name, t in golden.items()}, folder / "golden.safetensors")
    versions = dict(torch=torch.__version__, transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(dict(arch=config.model_type, seed=seed, **versions), indent=1))


parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--only", default="", help="names, with commas between them")
arguments = parser.parse_args()
only = set(filter(None, arguments.only.split(",")))
known = CASES | KEPT
if unknown := only - set(known):
    parser.error(f"no case {', '.join(sorted(unknown))}: there are {', '.join(known)}")
for name, case in known.items():
    if name in only or not only and name in CASES:
        make(arguments.out / name, *case)
