#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timm_nets.py OUT [NAME...]: reference cases of timm's networks of inverted bottlenecks, by the installed timm.

A configuration here has timm's own arguments; `arch_def` is timm's, with a text for each stage. As in encoders.py, the weights are bfloat16 numbers,
and statistics of norms are random too; counters of training steps are left out. mid.hidden.i is the input of stage i; the last one is the output of the last stage.
Needs torch, timm and safetensors.
"""
import json, zlib

import timm, torch
from safetensors.torch import save_file
from timm.models import _efficientnet_builder, efficientnet, mobilenetv3

from cases import command_line, fill_statistics

MOBILE = dict(model_type="mobilenetv4", architectures=["MobileNetV4ForImageClassification"], in_chans=3, act_layer="relu")
EFFICIENT = dict(model_type="efficientnetv2", architectures=["EfficientNetV2ForImageClassification"], in_chans=3, act_layer="silu")
CASES = {
    "mobilenetv4": MOBILE | dict(num_classes=10, img_size=64, stem_size=8, num_features=56, arch_def=[
        "er_r1_k3_s2_e4_c16", "uir_r1_a3_k5_s2_e4_c24 uir_r1_a3_k3_s1_e2_c24", "uir_r1_a3_k5_s2_e6_c40 uir_r2_a3_k3_s1_e4_c40 uir_r1_a0_k0_s1_e2_c40 uir_r1_a3_k0_s1_e4_c40",
        "uir_r1_a5_k5_s2_e2_c48 uir_r1_a5_k0_s1_e4_c48", "cn_r1_k1_s1_c72"]),
    # Sides that no stage halves evenly, stages of convolutions alone, and blocks without the first or the last part.
    "mobilenetv4_wide": MOBILE | dict(num_classes=7, img_size=75, stem_size=16, num_features=33, arch_def=[
        "cn_r1_k3_s2_e1_c16 cn_r1_k1_s1_e1_c24", "uir_r1_a0_k3_s2_e3_c24 uir_r2_a0_k3_s1_e2_c24", "uir_r1_a5_k0_s2_e4_c32 uir_r1_a3_k0_s1_e4_c32", "cn_r1_k1_s1_c40"]),
    "efficientnetv2": EFFICIENT | dict(num_classes=10, img_size=64, stem_size=8, num_features=56, arch_def=[
        "er_r1_k3_s1_e1_c8", "er_r2_k3_s2_e4_c16", "er_r1_k3_s2_e4_c16", "ir_r2_k3_s2_e4_c24_se0.25", "ir_r2_k3_s1_e6_c32_se0.25", "ir_r2_k3_s2_e6_c40_se0.25"]),
    "efficientnetv2_wide": EFFICIENT | dict(num_classes=7, img_size=75, stem_size=16, num_features=40, arch_def=[
        "cn_r2_k3_s1_e1_c16_skip", "er_r2_k3_s2_e4_c24", "ir_r1_k5_s2_e4_c32_se0.25", "ir_r2_k3_s2_e3_c32_se0.5"]),
}


def build(config):
    blocks = _efficientnet_builder.decode_arch_def([stage.split() for stage in config["arch_def"]])
    act = {"relu": torch.nn.ReLU, "silu": torch.nn.SiLU}[config["act_layer"]]
    sizes = dict(block_args=blocks, num_classes=config["num_classes"], in_chans=config["in_chans"], stem_size=config["stem_size"], fix_stem=True,
                 num_features=config["num_features"], act_layer=act)
    if config["model_type"] == "mobilenetv4":
        return mobilenetv3.MobileNetV3(head_bias=False, head_norm=True, **sizes)
    return efficientnet.EfficientNet(**sizes)


@torch.no_grad()
def write(folder, name, config, rows=2):
    seed = zlib.crc32(name.encode())
    model = build(config).eval()
    fill_statistics(model, seed)
    golden = {"in.pixel_values": torch.randn(rows, 3, config["img_size"], config["img_size"], generator=torch.Generator().manual_seed(seed + 1))}
    for i, stage in enumerate(model.blocks):
        stage.register_forward_pre_hook(lambda _, x, i=i: golden.__setitem__(f"mid.hidden.{i}", x[0]))
        stage.register_forward_hook(lambda _, x, y, i=i: golden.__setitem__(f"mid.hidden.{i + 1}", y))
    golden["out.logits"] = model(golden["in.pixel_values"])
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file({key: value.bfloat16().contiguous() for key, value in model.state_dict().items() if value.is_floating_point()}, folder / "model.safetensors")
    save_file({key: value.contiguous().clone() for key, value in golden.items()}, folder / "golden.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    case = dict(arch=config["model_type"], made_by="test/golden/make/timm_nets.py", seed=seed, torch=torch.__version__.split("+")[0], timm=timm.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, CASES[name])


if __name__ == "__main__":
    main()
