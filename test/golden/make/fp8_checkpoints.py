#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes reference cases of Llama and Qwen3 whose matrices are f8e4m3, in the public forms of checkpoints.

The model is transformers' own in float64, with the values of the matrices in place of their codes. Where the form's runtime rounds
inputs, each product rounds its inputs to f8e4m3 first. An input halfway between two numbers would be rounded by chance, so the script
takes the first seed without such inputs.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line

TINY = dict(vocab_size=89, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
INPUTS = dict(num_bits=8, type="float", strategy="token", dynamic=True, symmetric=True)


def compressed(strategy, ignore):
    weights = dict(num_bits=8, type="float", strategy=strategy, dynamic=False, symmetric=True)
    return dict(quant_method="compressed-tensors", format="float-quantized", quantization_status="compressed", ignore=ignore,
                config_groups=dict(group_0=dict(targets=["Linear"], weights=weights, input_activations=INPUTS)))


CASES = {  # name: (class, changes of TINY, quantization_config, the kind of scales)
    "llama_fp8_channel": ("Llama", dict(), compressed("channel", ["lm_head", "re:.*layers.1.mlp.down_proj"]), "channel"),
    "qwen3_fp8_tensor": ("Qwen3", dict(), compressed("tensor", ["lm_head"]), "tensor"),
    "qwen3_fp8_block": ("Qwen3", dict(hidden_size=40, head_dim=16), dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[16, 16]), "block"),
    "llama_fp8_fbgemm": ("Llama", dict(num_key_value_heads=4), dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0, modules_to_not_convert=[
        "lm_head", "model.layers.0.self_attn"]), "fbgemm"),
}
STARTS = {"llama_fp8_channel": 40, "qwen3_fp8_tensor": 15, "qwen3_fp8_block": 48, "llama_fp8_fbgemm": 4}  # seeds before them have such inputs
KEPT = {"llama_fp8_channel": ["layers.1.mlp.down_proj"], "llama_fp8_fbgemm": ["layers.0.self_attn"]}


def codes(values):
    return values.clamp(-448, 448).float().to(torch.float8_e4m3fn)


def quantise(w, kind):
    """The codes of a matrix, its scales as they are stored, and its values."""
    rows, columns = w.shape
    if kind == "block":
        padded = torch.nn.functional.pad(w, (0, -columns % 16, 0, -rows % 16))
        scales = padded.unflatten(0, (-1, 16)).unflatten(2, (-1, 16)).abs().amax((1, 3)).float() / 448
        wide = scales.double().repeat_interleave(16, 0).repeat_interleave(16, 1)[:rows, :columns]
    elif kind == "tensor":
        scales = (w.abs().max().float() / 448).reshape(1)
        wide = scales.double().expand(rows, columns)
    else:
        scales = w.abs().amax(1, keepdim=True).float() / 448
        wide = scales.double().expand(rows, columns)
    stored = codes(w / wide)
    return stored, scales, stored.double() * wide


class Product(torch.nn.Module):
    """A product whose inputs are rounded; `nearest` is the least distance of an input to a change of its code, over the row's size."""
    nearest = 1.0

    def __init__(self, weight, kind):
        super().__init__()
        self.values, self.group = [weight], 16 if kind == "block" else weight.shape[1]
        self.power = kind == "block"

    def forward(self, x):
        shape, dtype = x.shape, x.dtype
        x = x.double()
        x = torch.nn.functional.pad(x, (0, -shape[-1] % self.group)).unflatten(-1, (-1, self.group))
        unit = x.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
        if self.power:
            unit = 2.0 ** torch.ceil(torch.log2(unit))
        scaled = x / unit
        rounded = codes(scaled).double()
        step = 2.0 ** (torch.floor(torch.log2(scaled.abs().clamp(min=2.0**-6))) - 3)
        size = x.square().mean(-1, keepdim=True).sqrt()
        gap = torch.where(step * unit > 3e-5 * size, (step / 2 - (scaled - rounded).abs()) * unit / size, 1.0)
        Product.nearest = min(Product.nearest, float(gap.min()))
        x = (rounded * unit).flatten(-2)[..., :shape[-1]]
        return (x @ self.values[0].T).to(dtype)


def make(name, seed):
    kind_of_model, changes, quantization, kind = CASES[name]
    torch.manual_seed(seed)
    config = getattr(transformers, kind_of_model + "Config")(**(TINY | changes), rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    model = getattr(transformers, kind_of_model + "ForCausalLM")(config).double().eval()
    stored = {}
    for key, p in model.named_parameters():
        noise = torch.randn(p.shape, dtype=torch.float64)
        p.data.copy_((noise * 1.5 / p.shape[-1]**0.5 if p.dim() > 1 else 1 + 0.2 * noise).bfloat16())
        stored[key] = p.data.float()
    Product.nearest = 1.0
    for path, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or path == "lm_head" or any(part in path for part in KEPT.get(name, [])):
            continue
        bits, scales, values = quantise(module.weight.data, kind)
        stored[path + ".weight"] = bits
        stored[path + (".weight_scale_inv" if kind == "block" else ".weight_scale")] = scales
        model.set_submodule(path, Product(values, kind))
    ids = torch.randint(3, TINY["vocab_size"], (2, 11))
    with torch.no_grad():
        out = model(ids, output_hidden_states=True, use_cache=False)
        row, greedy = ids[:1], []
        for _ in range(6):
            greedy.append(int(model(row, use_cache=False).logits[0, -1].argmax()))
            row = torch.cat([row, torch.tensor([[greedy[-1]]])], 1)
        nearest = Product.nearest
        coarse = copy.deepcopy(model).bfloat16()(ids, output_hidden_states=True, use_cache=False)
        Product.nearest = nearest
    pairs = list(zip(coarse.hidden_states + (coarse.logits,), out.hidden_states + (out.logits,)))
    error = max(float((a.double() - b).square().mean().sqrt() / b.std()) for a, b in pairs)
    golden = {"in.input_ids": ids, "out.logits": out.logits.float(), "out.greedy": torch.tensor([greedy])}
    golden |= {f"mid.hidden.{i}": h.float() for i, h in enumerate(out.hidden_states)}
    return model.config, stored, golden, error


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        first = zlib.crc32(name.encode())
        for seed in range(first + STARTS[name], first + 500):
            config, stored, golden, error = make(name, seed)
            if Product.nearest > 1.5e-6:
                break
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        c = json.loads(config.to_json_string(use_diff=False))
        kept = ("architectures", "model_type", "hidden_act", "rms_norm_eps", "rope_parameters", "attention_bias", "mlp_bias", *TINY)
        c = {key: c[key] for key in kept if c.get(key) is not None} | dict(
            architectures=[CASES[name][0] + "ForCausalLM"], torch_dtype="bfloat16", quantization_config=CASES[name][2])
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file({key: value.contiguous() for key, value in stored.items()}, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch=config.model_type, made_by="test/golden/make/fp8_checkpoints.py", seed=seed, bf16_of_spread=round(error, 4), transformers=transformers.__version__, torch=torch.__version__.split("+")[0])
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, seed {seed - first}, the nearest change of a code is {Product.nearest:.1e} of a row's size")


if __name__ == "__main__":
    main()
