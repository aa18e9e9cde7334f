#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pi0.py OUT [NAME...]: reference cases of Pi0 from transformers' PI0ForConditionalGeneration, in float64, in the names of its checkpoints.

The library has the tokens of present cameras alone, then the text, then padding. A case has a place for each camera and each token of the text, and masks.
mid.hidden.i is what layer i of the expert gives in all steps, mid.tower_hidden.i the input of a layer of the tower, and mid.prefix_hidden.i the input of
a layer of the language model, where nothing is masked. Needs torch, transformers and safetensors.
"""
import argparse, json, math, pathlib, tempfile, zlib

import torch, transformers
from safetensors.torch import load_file, save_file
from transformers.models.pi0.modeling_pi0 import PI0TimestepEmbeddings

GEMMA = dict(model_type="gemma", attention_bias=False, hidden_act="gelu_pytorch_tanh", rms_norm_eps=1e-6, rope_parameters=dict(rope_theta=10000.0, rope_type="default"),
             num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, head_dim=16, use_bidirectional_attention=True, vocab_size=90)
VISION = dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4, num_channels=3,
              hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, vision_use_head=False)
BASE = dict(architectures=["PI0ForConditionalGeneration"], model_type="pi0", num_cameras=3, tokenizer_max_length=7, chunk_size=5, max_state_dim=6, max_action_dim=4,
            num_inference_steps=4, min_period=4e-3, max_period=4.0,
            vlm_config=dict(model_type="paligemma", image_token_id=90, projection_dim=40, text_config=GEMMA | dict(hidden_size=40, intermediate_size=72), vision_config=VISION),
            dit_config=GEMMA | dict(hidden_size=24, intermediate_size=52))
CASES = {
    # An absent camera, texts of other lengths.
    "pi0": (BASE, [(1, 1, 1), (1, 0, 1)], [7, 3]),
    # One camera, more heads and groups, other widths and periods; nothing is masked.
    "pi0_wide": (BASE | dict(num_cameras=1, tokenizer_max_length=5, chunk_size=8, max_state_dim=3, max_action_dim=7, num_inference_steps=2, min_period=0.02, max_period=5.0,
                             vlm_config=dict(model_type="paligemma", image_token_id=77, projection_dim=36, vision_config=VISION | dict(hidden_size=30, num_attention_heads=3, image_size=9, patch_size=3),
                                             text_config=GEMMA | dict(hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                                                                      vocab_size=77)),
                             dit_config=GEMMA | dict(hidden_size=28, intermediate_size=30, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2, head_dim=12, vocab_size=77)),
                 [(1,)], [5]),
}


def exact_times(self, time):
    c = self.config
    period = c.min_period * (c.max_period / c.min_period) ** torch.linspace(0, 1, c.dit_config.hidden_size // 2, dtype=torch.float64)
    angles = time.double()[:, None] * 2 * math.pi / period
    return torch.cat([angles.sin(), angles.cos()], 1)


def library_model(c):
    keys = {key: value for key, value in c.items() if key not in ("architectures", "model_type", "num_cameras", "tokenizer_max_length")}
    return transformers.PI0ForConditionalGeneration(transformers.PI0Config(**keys)).double().eval()


@torch.no_grad()
def fill(model, seed):
    """Unit gain, and norms with weights; numbers that bfloat16 has."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if "layernorm.weight" in name or "layer_norm" in name and name.endswith("weight") or name.endswith(".norm.weight"):
            value = 0.2 * noise + ("vision_tower" in name)
        elif p.ndim == 1:
            value = 0.1 * noise
        elif "embed" in name and p.ndim == 2:
            value = 0.3 * noise
        else:
            value = noise / noise[0].numel() ** 0.5
        p.copy_(value.bfloat16().double())


@torch.no_grad()
def act(c, model, inputs, cameras, lengths):
    """The golden tensors of a batch."""
    rows, patches = len(cameras), (c["vlm_config"]["vision_config"]["image_size"] // c["vlm_config"]["vision_config"]["patch_size"]) ** 2
    image, total = c["vlm_config"]["image_token_id"], c["num_cameras"] * patches + c["tokenizer_max_length"]
    ids, mask = torch.zeros(rows, total, dtype=torch.long), torch.zeros(rows, total, dtype=torch.long)
    for b in range(rows):
        row = [image] * (sum(cameras[b]) * patches) + inputs["prompt_ids"][b, :lengths[b]].tolist()
        ids[b, :len(row)], mask[b, :len(row)] = torch.tensor(row), 1
    seen, hooks = {}, []

    def watch(module, name, pick, before=False):
        keep = lambda value: seen.setdefault(name, []).append(pick(value[0] if isinstance(value, tuple) else value))
        hooks.append(module.register_forward_pre_hook(lambda _, args, kwargs: keep(args or kwargs["hidden_states"]), with_kwargs=True) if before else
                     module.register_forward_hook(lambda _, __, value: keep(value)))

    for i, layer in enumerate(model.model.vlm.vision_tower.encoder.layers):
        watch(layer, f"mid.tower_hidden.{i}", lambda x: x.unflatten(0, (rows, -1)).flatten(1, 2), before=True)
    if mask.all():
        for i, layer in enumerate(model.model.vlm.language_model.layers):
            watch(layer, f"mid.prefix_hidden.{i}", lambda x: x, before=True)
    for i, layer in enumerate(model.model.dit.layers):
        watch(layer, f"mid.hidden.{i}", lambda x: x)
    present = torch.tensor(cameras).bool()
    embeds = model.model.embed_prefix(ids, inputs["pixel_values"].double(), present)
    cache = model.model.vlm(inputs_embeds=embeds, attention_mask=mask, position_ids=mask.cumsum(-1) - 1, token_type_ids=torch.zeros_like(ids), use_cache=True).cache
    x, steps, latents, length = inputs["noise"].double(), c["num_inference_steps"], [], cache.get_seq_length()
    for i in range(steps):
        time = torch.full((rows,), 1 - i / steps, dtype=torch.float64)
        x = x - model(state=inputs["state"].double(), noise=x, timestep=time, attention_mask=mask, cache=cache).logits / steps
        cache.crop(length - cache.get_seq_length())
        latents.append(x)
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(values, 1) for name, values in seen.items()} | {"mid.latents": torch.cat(latents, 1), "out.actions": x}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    PI0TimestepEmbeddings.forward = exact_times
    for name in arguments.names or CASES:
        c, cameras, lengths = CASES[name]
        seed, rows, vision = zlib.crc32(name.encode()), len(cameras), c["vlm_config"]["vision_config"]
        model = library_model(c)
        fill(model, seed)
        g = torch.Generator().manual_seed(seed + 1)
        inputs = {"pixel_values": torch.randn(rows, c["num_cameras"], 3, vision["image_size"], vision["image_size"], generator=g),
                  "pixel_attention_mask": torch.tensor(cameras), "prompt_ids": torch.randint(0, c["vlm_config"]["text_config"]["vocab_size"], (rows, c["tokenizer_max_length"]), generator=g),
                  "prompt_mask": (torch.arange(c["tokenizer_max_length"]) < torch.tensor(lengths)[:, None]).long(),
                  "state": torch.randn(rows, c["max_state_dim"], generator=g), "noise": torch.randn(rows, c["chunk_size"], c["max_action_dim"], generator=g)}
        golden = {"in." + key: value for key, value in inputs.items()} | act(c, model, inputs, cameras, lengths)
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        with tempfile.TemporaryDirectory() as saved:
            model.save_pretrained(saved)
            weights = load_file(pathlib.Path(saved) / "model.safetensors")
        weights = {key: value.bfloat16() for key, value in weights.items() if "lm_head" not in key and not key.endswith("language_model.model.norm.weight")}  # nothing reads these
        save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="pi0", made_by="test/golden/make/pi0.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, actions {golden['out.actions'].std():.2f}")


if __name__ == "__main__":
    main()
