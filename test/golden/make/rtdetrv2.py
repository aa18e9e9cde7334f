#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rtdetrv2.py OUT [NAME...]: reference cases of RT-DETRv2, by the installed transformers.

Weights are bfloat16 numbers of unit gain, and statistics of norms are random too. mid.hidden.i is what layer i of the decoder gives. The last
products of boxes are small, so that boxes keep away from the sides of the image. Needs torch, transformers and safetensors.
"""
import json, zlib

import torch, transformers
from safetensors.torch import load_file, save_file

from cases import command_line

BACKBONE = dict(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 2, 1, 1], layer_type="bottleneck")
SIZES = dict(encoder_hidden_dim=32, encoder_ffn_dim=48, encoder_attention_heads=4, d_model=24, decoder_ffn_dim=40, decoder_attention_heads=3, decoder_layers=2, decoder_n_points=2,
             num_queries=9, num_labels=7)
CASES = {
    "rtdetrv2": (BACKBONE, SIZES, 96, 2),
    # Blocks of two convolutions, narrow fusion, other activations, and boxes outside of the image: a map of 52 pixels has some.
    "rtdetrv2_wide": (BACKBONE | dict(layer_type="basic", num_channels=1, embedding_size=12, hidden_sizes=[12, 20, 28, 36], depths=[2, 1, 2, 1], hidden_act="silu"),
                      SIZES | dict(encoder_hidden_dim=28, encoder_attention_heads=2, encoder_layers=2, hidden_expansion=0.5, activation_function="relu", d_model=36, decoder_layers=3,
                                   decoder_n_points=3, decoder_offset_scale=0.25, num_queries=40, num_labels=11, num_denoising=0, positional_encoding_temperature=20, batch_norm_eps=1e-3), 416, 1),
}


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in list(model.named_parameters()) + [b for b in model.named_buffers() if b[1].is_floating_point() and "n_points_scale" not in b[0]]:
        noise = torch.randn(p.shape, generator=g)
        last = name.endswith("layers.2.weight")  # of a box
        if name.endswith("running_var"):
            value = 0.5 + torch.rand(p.shape, generator=g)
        elif p.dim() > 1:
            value = noise * (0.5 if last else 1.5) / p[0].numel() ** 0.5
        elif name.endswith("weight"):
            value = 1 + 0.2 * noise
        else:
            value = 0.1 * noise
        p.data.copy_(value.bfloat16().float())


@torch.no_grad()
def write(folder, name, backbone, sizes, side, images):
    levels = backbone["hidden_sizes"][1:]
    config = transformers.RTDetrV2Config(backbone_config=transformers.RTDetrResNetConfig(**backbone, out_features=["stage2", "stage3", "stage4"]), encoder_in_channels=levels,
                                         decoder_in_channels=[sizes["encoder_hidden_dim"]] * 3, **sizes)
    config._attn_implementation = "eager"
    model = transformers.RTDetrV2ForObjectDetection(config).eval().float()
    seed = zlib.crc32(name.encode())
    fill(model, seed)
    g = torch.Generator().manual_seed(seed + 1)
    # Large pixels: a packed file of a large image is small.
    coarse = torch.randn(images, config.backbone_config.num_channels, side // 4, side // 4, generator=g)
    seen = dict(pixel_values=coarse.repeat_interleave(4, 2).repeat_interleave(4, 3))
    out = model(**seen)
    golden = {"in.pixel_values": seen["pixel_values"], "out.logits": out.logits, "out.pred_boxes": out.pred_boxes}
    golden |= {f"mid.hidden.{i}": out.intermediate_hidden_states[:, i] for i in range(config.decoder_layers)}
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    model.bfloat16().save_pretrained(folder)
    # Constants, a table of the training, and heads of all layers but the last are not read.
    heads = [f".class_embed.{i}." for i in range(config.decoder_layers - 1)]
    kept = {key: t for key, t in load_file(folder / "model.safetensors").items() if not any(word in key for word in heads + ["n_points_scale", "denoising", "num_batches_tracked"])}
    save_file(kept, folder / "model.safetensors", metadata=dict(format="pt"))
    file = folder / "config.json"
    keys = json.loads(file.read_text()) | dict(image_size=side, num_labels=config.num_labels)
    for part in (keys, keys["backbone_config"]):  # names of labels
        part.pop("id2label", None), part.pop("label2id", None)
    file.write_text(json.dumps(keys, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case = dict(arch="rtdetrv2", made_by="test/golden/make/rtdetrv2.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, boxes {out.pred_boxes.min():.3f} to {out.pred_boxes.max():.3f}, logits {out.logits.std():.2f}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
