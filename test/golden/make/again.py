#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""again.py DIR... [--check | --bf16]: the answers of reference cases of language models, computed anew by the installed transformers.

Takes config.json, model.safetensors and in.input_ids of a case as they are, and writes golden.safetensors and the versions in
case.json. With --check it only says how far the answers in the folder are from its own. With --bf16 it computes in bfloat16, and writes
the largest error of one output to case.json as bf16_of_spread (root of the mean square, a share of the spread): `verify --dtype bf16`
allows 1.5 times as much. It is the largest of ROUNDINGS runs whose embeddings differ by up to half a step of bfloat16: where a rounding
decides between two experts, one run may not show it. Needs torch, transformers and safetensors.
"""
import argparse, json, pathlib

import torch, transformers
from safetensors.torch import load_file, save_file


ROUNDINGS = 12


@torch.no_grad()
def answers(folder, old, dtype=torch.float32, rounding=0):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    ids = old["in.input_ids"]
    if rounding:
        random = torch.Generator().manual_seed(rounding)
        moved = lambda _, __, x: (x.float() * (1 + (torch.rand(x.shape, generator=random) - 0.5) * 2**-7)).to(dtype)
        model.get_input_embeddings().register_forward_hook(moved)
    seen = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    golden = {"in.input_ids": ids, "out.logits": seen.logits}
    golden |= {f"mid.hidden.{i}": h for i, h in enumerate(seen.hidden_states)}
    if "out.greedy" in old:
        row, count = ids[:1], old["out.greedy"].shape[1]
        for _ in range(count):  # without a cache: the reference for any cache
            row = torch.cat([row, model(input_ids=row, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
        golden["out.greedy"] = row[:, -count:]
    return {name: golden[name].contiguous().clone() for name in old}


def errors(got, want):
    """The largest error of one output: root of the mean square, as a share of its spread."""
    return max(((t.double() - want[n].double()).square().mean().sqrt() / want[n].double().std()).item() for n, t in got.items() if t.is_floating_point())


def keep(folder, facts):
    file = folder / "case.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        old = load_file(folder / "golden.safetensors")
        if arguments.bf16:
            runs = [errors(answers(folder, old, torch.bfloat16, i), old) for i in range(ROUNDINGS)]
            print(f"{folder.name}: {max(runs):.3f} of the spread in bfloat16; of each run: {' '.join(f'{e:.3f}' for e in runs)}")
            keep(folder, dict(bf16_of_spread=round(max(runs), 4)))
            continue
        new = answers(folder, old)
        for name, tensor in new.items():
            error = (tensor.double() - old[name].double()).abs().max() / max(old[name].double().std(), 1e-30)
            print(f"{folder.name} {name}: {error:.2e} of the spread from the answer in the folder")
        if arguments.check:
            continue
        save_file(new, folder / "golden.safetensors")
        keep(folder, dict(torch=torch.__version__, transformers=transformers.__version__))


if __name__ == "__main__":
    main()
