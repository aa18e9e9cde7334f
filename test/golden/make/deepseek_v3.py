#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deepseek_v3.py FOLDER: gives the model of the case in FOLDER other routers and makes its answers again with transformers.

Of many random routers every layer gets the one whose closest decision, between groups or between experts, over all tokens
of the case, is farthest from a tie. With routers drawn once, rounding to bfloat16 decides where some tokens go, and then two right
implementations disagree by far more than rounding. Needs torch, transformers and safetensors."""
import json, pathlib, sys
import torch, transformers
from safetensors.torch import load_file, save_file

DRAWS = 20000


def margins(inputs, gate, bias, config):
    """[draws]: the smallest distance of a taken from a left group or expert; gate [draws, experts, C]."""
    experts, groups = config.n_routed_experts, config.n_group
    choice = torch.einsum("tc,dec->dte", inputs, gate).sigmoid() + bias
    by_group = choice.unflatten(-1, (groups, experts // groups))
    scores = by_group.topk(2, -1).values.sum(-1)
    order = scores.sort(-1, descending=True)
    taken = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order.indices[..., : config.topk_group], True)
    rest = by_group.masked_fill(~taken[..., None], float("-inf")).flatten(-2).sort(-1, descending=True).values
    k = config.num_experts_per_tok
    between_groups = order.values[..., config.topk_group - 1] - order.values[..., config.topk_group]
    return torch.minimum(between_groups, rest[..., k - 1] - rest[..., k]).amin(-1)


@torch.inference_mode()
def main(folder):
    transformers.logging.set_verbosity_error()
    case = json.loads((folder / "case.json").read_text())
    golden, weights = load_file(folder / "golden.safetensors"), load_file(folder / "model.safetensors")
    ids = golden["in.input_ids"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(case["seed"])
    smallest = {}
    for i, layer in enumerate(model.model.layers):
        if not hasattr(layer.mlp, "gate"):
            continue
        gate, seen = layer.mlp.gate, []
        hook = gate.register_forward_pre_hook(lambda module, args: seen.append(args[0].flatten(0, -2).double()))
        model(ids, use_cache=False)
        hook.remove()
        best = (-1.0, None)
        for _ in range(DRAWS // 100):
            drawn = torch.randn(100, *gate.weight.shape, generator=generator) * gate.weight.std()
            far = margins(seen[0], drawn.double(), gate.e_score_correction_bias.double(), model.config)
            if far.max() > best[0]:
                best = (far.max().item(), drawn[far.argmax()])
        gate.weight.copy_(best[1])
        weights[f"model.layers.{i}.mlp.gate.weight"] = best[1].contiguous()
        smallest[i] = best[0]
    done = model(ids, use_cache=False, output_hidden_states=True)
    golden["out.logits"] = done.logits
    for i, hidden in enumerate(done.hidden_states):
        golden[f"mid.hidden.{i}"] = hidden.contiguous()
    row = ids[:1]
    for _ in range(golden["out.greedy"].shape[1]):
        row = torch.cat([row, model(row, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    golden["out.greedy"] = row[:, ids.shape[1]:].contiguous()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    save_file(golden, folder / "golden.safetensors")
    case["note"] = case["note"].split("; routers")[0] + "; routers by make/deepseek_v3.py, whose closest decisions are " + ", ".join(
        f"{far:.3f} (layer {i})" for i, far in smallest.items()) + " from a tie"
    case.update(torch=torch.__version__, transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1))
    print(case["note"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
