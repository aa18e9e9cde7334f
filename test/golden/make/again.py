#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""again.py DIR... [--check]: the answers of reference cases of language models, computed anew by the installed transformers.

Takes config.json, model.safetensors and in.input_ids of a case as they are, and writes golden.safetensors and the versions in
case.json; with --check it only says how far the answers in the folder are from its own. Needs torch, transformers and safetensors.
"""
import argparse, json, pathlib

import torch, transformers
from safetensors.torch import load_file, save_file


@torch.no_grad()
def answers(folder, old):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = old["in.input_ids"]
    seen = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    golden = {"in.input_ids": ids, "out.logits": seen.logits}
    golden |= {f"mid.hidden.{i}": h for i, h in enumerate(seen.hidden_states)}
    if "out.greedy" in old:
        row, count = ids[:1], old["out.greedy"].shape[1]
        for _ in range(count):  # without a cache: the reference for any cache
            row = torch.cat([row, model(input_ids=row, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
        golden["out.greedy"] = row[:, -count:]
    return {name: golden[name].contiguous().clone() for name in old}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        old = load_file(folder / "golden.safetensors")
        new = answers(folder, old)
        for name, tensor in new.items():
            error = (tensor.double() - old[name].double()).abs().max() / max(old[name].double().std(), 1e-30)
            print(f"{folder.name} {name}: {error:.2e} of the spread from the answer in the folder")
        if arguments.check:
            continue
        save_file(new, folder / "golden.safetensors")
        case = json.loads((folder / "case.json").read_text())
        case |= dict(torch=torch.__version__, transformers=transformers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    main()
