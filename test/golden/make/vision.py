#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vision.py OUT [NAME...]: reference cases of models of images, by the installed transformers.

As encoders.py, of which the weights are bfloat16 numbers of unit gain. mid.hidden.i is the input of layer i; the last one is the output of the
last layer. Needs torch, transformers and safetensors.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line

DINO = dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8, num_register_tokens=4)
SIGLIP = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_patches=36, patch_size=4, hidden_act="gelu_pytorch_tanh")
JEPA = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, patch_size=8, crop_size=24, frames_per_clip=4, mlp_ratio=2, pred_hidden_size=36, pred_num_attention_heads=2,
            pred_num_hidden_layers=2, pred_num_mask_tokens=3)
SWIN = dict(image_size=32, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 3], window_size=4, mlp_ratio=2.0)
CASES = {
    "dinov3": ("DINOv3ViT", DINO | dict(use_gated_mlp=True, hidden_act="silu"), {}),
    # Sizes with a remainder, no registers, another MLP, and biases the other way round.
    "dinov3_wide": ("DINOv3ViT", DINO | dict(hidden_size=72, num_attention_heads=6, num_hidden_layers=3, image_size=29, patch_size=5, num_register_tokens=0, query_bias=True,
                                            key_bias=True, value_bias=False, mlp_bias=False), {}),
    "siglip2": ("Siglip2Vision", SIGLIP, dict(shapes=[(4, 5), (6, 3), (2, 2)], patches=20)),
    "siglip2_wide": ("Siglip2Vision", SIGLIP | dict(hidden_size=60, num_attention_heads=3, num_hidden_layers=3, num_patches=9, hidden_act="gelu"), dict(shapes=[(5, 5), (1, 7)], patches=25)),
    "vjepa2": ("VJEPA2", JEPA, {}),
    # Heads with channels that no axis turns, one kind of mask, images with a rest.
    "vjepa2_wide": ("VJEPA2", JEPA | dict(hidden_size=66, num_hidden_layers=3, crop_size=19, patch_size=6, frames_per_clip=6, pred_hidden_size=28, pred_num_mask_tokens=1, mlp_ratio=3.5), {}),
    "swinv2": ("Swinv2", SWIN, {}),
    # Three stages, windows of an odd size, distances of another window, no biases.
    "swinv2_wide": ("Swinv2", SWIN | dict(image_size=72, patch_size=6, embed_dim=20, depths=[2, 1, 2], num_heads=[2, 4, 5], window_size=3, qkv_bias=False, pretrained_window_sizes=[6, 5, 3, 0]), {}),
}


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if p.dim() > 1 and not name.endswith("logit_scale") and not any(part in name for part in ("token", "probe", "position_embedding")):
            value = noise * 1.5 / p[0].numel() ** 0.5
        elif p.dim() > 1 and not name.endswith("logit_scale"):
            value = noise
        elif name.endswith("logit_scale"):
            value = p + 0.2 * noise
        elif "norm" in name and name.endswith("weight") or "lambda" in name:
            value = 1 + 0.2 * noise
        else:
            value = 0.1 * noise
        p.data.copy_(value.bfloat16().float())


@torch.no_grad()
def write(folder, name, kind, sizes, more):
    config = getattr(transformers, kind + "Config")(**copy.deepcopy(sizes))
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "Model")(config).eval().float()
    seed = zlib.crc32(name.encode())
    fill(model, seed)
    g = torch.Generator().manual_seed(seed + 1)
    keys = {}
    if "shapes" in more:
        keys["max_num_patches"] = more["patches"]
        shapes = torch.tensor(more["shapes"])
        mask = torch.arange(more["patches"])[None] < shapes.prod(1, keepdim=True)
        seen = dict(pixel_values=torch.randn(len(shapes), more["patches"], 3 * config.patch_size ** 2, generator=g), spatial_shapes=shapes, pixel_attention_mask=mask.long())
    elif kind == "VJEPA2":
        seen = dict(pixel_values_videos=torch.randn(2, config.frames_per_clip, 3, config.crop_size, config.crop_size, generator=g))
    else:
        seen = dict(pixel_values=torch.randn(2, 3, config.image_size, config.image_size, generator=g))
    out = model(**seen, output_hidden_states=True)
    golden = {"in." + key: value if value.is_floating_point() else value.float() for key, value in seen.items()}
    if kind == "VJEPA2":
        golden |= {f"mid.encoder_hidden.{i}": hidden for i, hidden in enumerate(out.hidden_states[:config.num_hidden_layers])}
        golden["out.predictor_output.last_hidden_state"] = out.predictor_output.last_hidden_state
    else:
        golden |= {f"mid.hidden.{i}": hidden for i, hidden in enumerate(out.hidden_states)}
        golden["out.pooler_output"] = out.pooler_output
    golden["out.last_hidden_state"] = out.last_hidden_state
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    small = copy.deepcopy(model).bfloat16()
    # Tokens of the training, and tensors without elements, are not read.
    kept = {key: value for key, value in small.state_dict().items() if value.numel() and not key.endswith("embeddings.mask_token")}
    small.save_pretrained(folder, state_dict=kept)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case = dict(arch=config.model_type, made_by="test/golden/make/vision.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
