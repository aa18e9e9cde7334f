#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images_and_text.py OUT [NAME...]: reference cases of decoders which see images, by the installed transformers.

Three requests of one length: two images of unlike shapes, one image, and text alone. Weights are bfloat16 numbers of unit gain, as in
decoders.py. mid.hidden.i is the input of layer i of the decoder, mid.encoder_hidden.i that of the vision tower; the last one is the
tower's output before its merger. Needs torch, transformers and safetensors.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import load_file, save_file

from cases import command_line

IMAGE, START, END = 90, 88, 89
TEXT = dict(vocab_size=97, hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            bos_token_id=1, eos_token_id=2, pad_token_id=0)
TOWER = dict(depth=3, num_heads=2, in_channels=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2)
IDS = dict(image_token_id=IMAGE, video_token_id=91, vision_start_token_id=START, vision_end_token_id=END)


def rope(*section, theta=10000.0, **more):
    return dict(rope_type="default", rope_theta=theta, mrope_section=list(section), **more)


QWEN3_TEXT = TEXT | dict(num_hidden_layers=4, head_dim=16, rope_parameters=rope(4, 2, 2, mrope_interleaved=True))
QWEN3_TOWER = TOWER | dict(hidden_size=24, intermediate_size=44, out_hidden_size=48, num_position_embeddings=25, deepstack_visual_indexes=[0, 2])
CASES = {
    "qwen2_vl": ("Qwen2VL", TEXT | dict(rope_parameters=rope(1, 2, 3)), TOWER | dict(embed_dim=24, hidden_size=48, mlp_ratio=3), {}),
    # Other widths, an odd vocabulary, a tied head, patches of one frame, three by three patches for a token.
    "qwen2_vl_wide": ("Qwen2VL", TEXT | dict(hidden_size=40, vocab_size=101, num_hidden_layers=2, num_key_value_heads=1, rope_parameters=rope(3, 1, 1, theta=500.0)),
                      TOWER | dict(embed_dim=40, hidden_size=40, num_heads=5, mlp_ratio=2, depth=2, patch_size=3, temporal_patch_size=1, spatial_merge_size=3),
                      dict(tie_word_embeddings=True)),
    "qwen3_vl": ("Qwen3VL", QWEN3_TEXT, QWEN3_TOWER, {}),
    "qwen3_vl_wide": ("Qwen3VL", QWEN3_TEXT | dict(hidden_size=40, vocab_size=101, num_hidden_layers=2, num_key_value_heads=1, head_dim=12, attention_bias=True, rope_parameters=rope(2, 3, 1, theta=500.0)),
                      QWEN3_TOWER | dict(hidden_size=40, num_heads=5, out_hidden_size=40, depth=2, patch_size=3, temporal_patch_size=1, spatial_merge_size=3, num_position_embeddings=16,
                                         deepstack_visual_indexes=[1], hidden_act="gelu"), dict(tie_word_embeddings=True)),
    "qwen3_vl_moe": ("Qwen3VLMoe", QWEN3_TEXT | dict(num_hidden_layers=2, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True), QWEN3_TOWER, {}),
}


def fill(model, seed, tied):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            value = (1 + 0.2 * noise) if name.endswith("weight") else 0.1 * noise
        elif "pos_embed" in name:
            value = noise
        elif "embed_tokens" in name:
            value = noise * (0.4 / p.shape[1] ** 0.5 if tied else 1.0)
        elif p.dim() == 3:  # experts, [in, out]
            value = noise * 1.5 / p.shape[-1] ** 0.5
        else:
            value = noise * 1.5 / p[0].numel() ** 0.5
        p.data.copy_(value.bfloat16().float())


def prompt(grids, merge, length, vocabulary, g):
    """Text, and START, a row of IMAGE and END for each image."""
    ids = torch.randint(3, IMAGE - 4, (length,), generator=g)
    at = 2
    for t, h, w in grids:
        count = t * h * w // merge**2
        ids[at], ids[at + 1:at + 1 + count], ids[at + 1 + count] = START, IMAGE, END
        at += count + 3
    return ids


def inputs_of(ids, patches, grids):
    more = {}
    if len(grids):
        more = dict(pixel_values=patches, image_grid_thw=torch.tensor(grids), mm_token_type_ids=(ids == IMAGE).int())
    return dict(input_ids=ids, **more)


@torch.no_grad()
def answers(model, text, tower, seed, length=32, count=10):
    """Inputs and answers. Null where an answer has the token of images, which the library refuses."""
    m = tower["spatial_merge_size"]
    g = torch.Generator().manual_seed(seed + 1)
    shapes = [[[1, 2 * m, 3 * m], [1, m, 4 * m]], [[1, 4 * m, 2 * m]], []]
    width = 3 * tower["temporal_patch_size"] * tower["patch_size"] ** 2
    rows = [sum(t * h * w for t, h, w in grids) for grids in shapes]
    patches = torch.zeros(3, max(rows), width)
    grid = torch.zeros(3, 2, 3)
    taps = {}

    def see(stack, number):
        return lambda module, args, kwargs: taps.setdefault((stack, number), []).append(args[0] if args else kwargs["hidden_states"])

    layers, blocks = model.model.language_model.layers, model.model.visual.blocks
    hooks = []
    for stack, modules in (("", [*layers, model.lm_head]), ("encoder_", [*blocks, model.model.visual.merger])):
        for i, module in enumerate(modules):
            hooks.append(module.register_forward_pre_hook(see(stack, i), with_kwargs=True))
    tokens, logits, greedy, mid = [], [], [], {}
    for b, grids in enumerate(shapes):
        ids = prompt(grids, m, length, text["vocab_size"], g)[None]
        patches[b, :rows[b]] = torch.randn(rows[b], width, generator=g)
        grid[b, :len(grids)] = torch.tensor(grids) if grids else 0
        call = lambda row: model(**inputs_of(row, patches[b, :rows[b]], grids), use_cache=False)  # noqa: E731
        taps.clear()
        logits.append(call(ids).logits)
        for (stack, i), values in taps.items():
            value = values[0].reshape(1, -1, values[0].shape[-1])
            most = max(rows) if stack else length
            mid.setdefault(f"mid.{stack}hidden.{i}", torch.zeros(3, most, value.shape[-1]))[b, :value.shape[1]] = value
        tokens.append(ids)
        row = ids
        for _ in range(count):  # without a cache: the reference for any cache
            row = torch.cat([row, call(row).logits[:, -1].argmax(-1, keepdim=True)], 1)
            if row[0, -1] == IMAGE:
                for hook in hooks:
                    hook.remove()
                return None
        greedy.append(row[:, length:])
    for hook in hooks:
        hook.remove()
    return {"in.input_ids": torch.cat(tokens), "in.pixel_values": patches, "in.pixel_values.rows": torch.tensor(rows), "in.image_grid_thw": grid,
              "in.image_grid_thw.rows": torch.tensor([len(grids) for grids in shapes]), "out.logits": torch.cat(logits), "out.greedy": torch.cat(greedy), **mid}


@torch.no_grad()
def write(folder, name, kind, text, tower, more):
    config = getattr(transformers, kind + "Config")(text_config=copy.deepcopy(text), vision_config=copy.deepcopy(tower), **IDS, **more)
    config._attn_implementation = config.text_config._attn_implementation = config.vision_config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForConditionalGeneration")(config).eval().float()
    seed = zlib.crc32(name.encode())
    tied = config.tie_word_embeddings
    golden = None
    while golden is None:
        seed += 1
        fill(model, seed, tied)
        golden = answers(model, text, tower, seed)
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).bfloat16().save_pretrained(folder)
    if kind.endswith("Moe"):  # experts of files on the Hub are [in, out]; the library reads both
        weights = load_file(folder / "model.safetensors")
        save_file({key: tensor.mT.contiguous() if ".experts." in key else tensor for key, tensor in weights.items()}, folder / "model.safetensors", metadata=dict(format="pt"))
    (folder / "generation_config.json").unlink(missing_ok=True)
    usual = transformers.PreTrainedConfig().to_dict().keys() | {"_name_or_path"}
    written = json.loads((folder / "config.json").read_text())
    written = {key: {k: v for k, v in value.items() if k not in usual} if isinstance(value, dict) and "is_encoder_decoder" in value else value for key, value in written.items()}
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case = dict(arch=config.model_type, made_by="test/golden/make/images_and_text.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, greedy {golden['out.greedy'].tolist()}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
