#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sam3.py OUT [NAME...]: reference cases of SAM 3 by the installed transformers, with texts of unequal lengths as prompts.

mid.hidden.i is the input of layer i of the vision transformer with tokens in the order of windows, mid.encoder_hidden.i that of the encoder, and
mid.decoder_hidden.i that of the decoder, whose first row is the presence token. The last one of each is behind all layers. semantic_seg is channels last.
Needs torch, torchvision, transformers and safetensors.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line

VIT = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4, num_channels=3, image_size=64, patch_size=8, window_size=4, global_attn_indexes=[1],
           pretrain_image_size=32)
TEXT = dict(vocab_size=90, hidden_size=24, intermediate_size=56, num_hidden_layers=3, num_attention_heads=3, max_position_embeddings=9, projection_dim=20, hidden_act="gelu", bos_token_id=1, eos_token_id=2, pad_token_id=0)
DETR = dict(hidden_size=32, num_layers=2, num_attention_heads=4, intermediate_size=40)
CASES = {
    "sam3": (VIT, TEXT, 32, DETR, DETR | dict(num_queries=11), dict(hidden_size=32, num_attention_heads=4), 3),
    # Other widths, more windows than tokens of the table, other heads in each stack.
    "sam3_wide": (VIT | dict(hidden_size=40, num_attention_heads=5, num_hidden_layers=4, image_size=72, patch_size=6, window_size=3, global_attn_indexes=[0, 3], pretrain_image_size=30),
                  TEXT | dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=7), 48, DETR | dict(hidden_size=48, num_layers=1, num_attention_heads=6),
                  DETR | dict(hidden_size=48, num_layers=3, num_attention_heads=3, num_queries=7, intermediate_size=60), dict(hidden_size=48, num_attention_heads=2), 2),
}


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            value = (1 + 0.2 * noise) if name.endswith("weight") else 0.1 * noise
        elif "embed" in name and "patch" not in name and "embed_" not in name and "embedder" not in name and p.dim() == 2 or "position_embeddings" in name or "reference_points" in name or "presence_token" in name:
            value = noise * (3 if "query_embed" in name else 1)
        elif "rpb_embed" in name:
            value = noise * 2 / p.shape[1] ** 0.5
        elif "scale_layers" in name:
            value = noise * 1.2 / p.shape[0] ** 0.5
        else:
            value = noise * 1.2 / p[0].numel() ** 0.5
        p.data.copy_(value.bfloat16().float())


def windows(x, size):
    b, h, w, c = x.shape
    return x.reshape(b, h // size, size, w // size, size, c).transpose(2, 3).reshape(b, h * w, c)


@torch.no_grad()
def write(folder, name, vit, text, width, encoder, decoder, masks, rows):
    config = transformers.Sam3Config(vision_config=dict(backbone_config=dict(model_type="sam3_vit_model", **copy.deepcopy(vit)), fpn_hidden_size=width),
                                     text_config=dict(model_type="clip_text_model", **text), geometry_encoder_config=dict(hidden_size=width, num_layers=1, num_attention_heads=4, intermediate_size=16),
                                     detr_encoder_config=copy.deepcopy(encoder), detr_decoder_config=copy.deepcopy(decoder), mask_decoder_config=copy.deepcopy(masks))
    config._attn_implementation = "eager"
    model = transformers.Sam3Model(config).eval().float()
    seed = zlib.crc32(name.encode())
    fill(model, seed)
    g = torch.Generator().manual_seed(seed + 1)
    side, length = vit["image_size"], text["max_position_embeddings"]
    lengths = torch.tensor([length, 3, 5][:rows])
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    inputs = dict(pixel_values=torch.randn(rows, 3, side, side, generator=g), input_ids=torch.randint(3, text["vocab_size"], (rows, length), generator=g), attention_mask=mask)
    seen = {}

    def see(key):
        return lambda module, args, kwargs: seen.update({key: args[0] if args else kwargs["hidden_states"]})

    def last(key):
        return lambda module, args, out: seen.update({key: out})

    stacks = {"hidden": model.vision_encoder.backbone.layers, "encoder_hidden": model.detr_encoder.layers, "decoder_hidden": model.detr_decoder.layers}
    for stack, layers in stacks.items():
        for i, layer in enumerate(layers):
            layer.register_forward_pre_hook(see((stack, i)), with_kwargs=True)
        layers[-1].register_forward_hook(last((stack, len(layers))))
    out = model(**inputs)
    golden = {"in.pixel_values": inputs["pixel_values"], "in.prompt_ids": inputs["input_ids"].float(), "in.prompt_mask": mask.float()}
    for key in ("pred_masks", "pred_boxes", "pred_logits", "presence_logits"):
        golden["out." + key] = out[key]
    golden["out.semantic_seg"] = out.semantic_seg.permute(0, 2, 3, 1)
    for (stack, i), value in seen.items():
        golden[f"mid.{stack}.{i}"] = windows(value, vit["window_size"]) if stack == "hidden" else value
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).bfloat16().save_pretrained(folder)
    usual = transformers.PreTrainedConfig().to_dict().keys() - {"architectures"} | {"_name_or_path"}

    def clean(value):
        return {k: clean(v) for k, v in value.items() if k not in usual or k in ("model_type",)} if isinstance(value, dict) else value

    written = clean(json.loads((folder / "config.json").read_text()))
    (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")
    save_file({key: value.contiguous().clone() for key, value in golden.items()}, folder / "golden.safetensors")
    rough = copy.deepcopy(model).bfloat16()(**inputs | dict(pixel_values=inputs["pixel_values"].bfloat16()))
    own = max(float((rough[key].float() - out[key]).std() / out[key].std()) for key in ("pred_masks", "pred_boxes", "pred_logits", "presence_logits"))
    case = dict(arch="sam3", made_by="test/golden/make/sam3.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__, bf16_of_spread=round(own, 4))
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, logits {out.pred_logits.std():.2f}, "
          f"presence {out.presence_logits.flatten().tolist()}, masks {out.pred_masks.std():.2f}, boxes {out.pred_boxes.std():.2f}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
