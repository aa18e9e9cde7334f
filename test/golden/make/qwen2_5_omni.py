#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""qwen2_5_omni.py OUT [NAME...]: reference cases of Qwen2.5-Omni's thinker, by the installed transformers.

Four requests of one length: two images of unlike shapes with a sound, two sounds, an image of three frames, and text alone. Sounds have lengths which
leave a remainder behind chunks, and odd ones. Weights are bfloat16 numbers of unit gain. mid.hidden.i is the input of layer i of the decoder,
mid.encoder_hidden.i that of the vision tower in the order of windows, mid.audio_hidden.i that of the tower of sounds; the last ones are the inputs of the
head, of the merger and of the projection. Needs torch, transformers and safetensors.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line

IMAGE, VIDEO, SOUND = 90, 91, 92
STARTS = {IMAGE: (87, 86), SOUND: (88, 89)}
MOST_TEXT = 80  # random tokens are below all special ones
TEXT = dict(vocab_size=97, hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=160,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
TOWER = dict(depth=3, hidden_size=24, intermediate_size=28, num_heads=2, in_channels=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2, window_size=16,
             out_hidden_size=48, fullatt_block_indexes=[1])
EARS = dict(num_mel_bins=8, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=40, d_model=24, n_window=5, output_dim=48, max_source_positions=20)
IDS = dict(image_token_id=IMAGE, video_token_id=VIDEO, audio_token_id=SOUND, audio_start_token_id=88, audio_end_token_id=89, vision_start_token_id=87, vision_end_token_id=86,
           user_token_id=3, position_id_per_seconds=4)


def rope(*section, theta=10000.0):
    return dict(rope_type="default", rope_theta=theta, mrope_section=list(section))


CASES = {
    "qwen2_5_omni": (TEXT | dict(rope_parameters=rope(1, 2, 3)), TOWER, EARS, {}),
    # Other widths, an odd vocabulary, windows of one square of three by three patches, chunks of an even number of rows.
    "qwen2_5_omni_wide": (TEXT | dict(hidden_size=40, vocab_size=101, num_hidden_layers=2, num_key_value_heads=1, rope_parameters=rope(3, 1, 1, theta=500.0)),
                          TOWER | dict(hidden_size=40, num_heads=5, depth=2, patch_size=3, temporal_patch_size=1, spatial_merge_size=3, window_size=9, out_hidden_size=40,
                                       fullatt_block_indexes=[0]),
                          EARS | dict(d_model=40, encoder_attention_heads=5, encoder_layers=1, n_window=4, output_dim=40, num_mel_bins=5), dict(position_id_per_seconds=2)),
}


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            value = (1 + 0.2 * noise) if name.endswith("weight") else 0.1 * noise
        elif "embed_tokens" in name:
            value = noise
        else:
            value = noise * 1.5 / p[0].numel() ** 0.5
        p.data.copy_(value.bfloat16().float())


def rows_of_sound(frames):
    return ((frames - 1) // 2 + 1 - 2) // 2 + 1


def prompt(parts, merge, length, g):
    """Text, and a start, placeholders and an end for each image or sound."""
    ids = torch.randint(4, MOST_TEXT, (length,), generator=g)
    at = 2
    for part in parts:
        token = IMAGE if isinstance(part, list) else SOUND
        count = part[0] * part[1] * part[2] // merge**2 if token == IMAGE else rows_of_sound(part)
        ids[at], ids[at + 1:at + 1 + count], ids[at + 1 + count] = STARTS[token][0], token, STARTS[token][1]
        at += count + 3
    assert at <= length
    return ids


def inputs_of(ids, patches, grids, mel, sounds):
    more = dict(input_ids=ids, attention_mask=torch.ones_like(ids))
    if grids:
        more |= dict(pixel_values=patches, image_grid_thw=torch.tensor(grids))
    if sounds:
        features = torch.zeros(len(sounds), mel.shape[1], max(sounds))
        for i, (part, frames) in enumerate(zip(mel.split(sounds), sounds)):
            features[i, :, :frames] = part.T
        mask = torch.arange(max(sounds))[None] < torch.tensor(sounds)[:, None]
        more |= dict(input_features=features, feature_attention_mask=mask.long())
    return more


@torch.no_grad()
def answers(model, tower, ears, seed, length=44, count=10):
    """Inputs and answers. Null where an answer has a special token, which the library refuses."""
    m = tower["spatial_merge_size"]
    g = torch.Generator().manual_seed(seed + 1)
    requests = [[[1, 3 * m, 3 * m], 23, [1, m, 4 * m]], [10, 37], [[3, 2 * m, 2 * m]], []]
    width = 3 * tower["temporal_patch_size"] * tower["patch_size"] ** 2
    images = [[p for p in r if isinstance(p, list)] for r in requests]
    sounds = [[p for p in r if not isinstance(p, list)] for r in requests]
    patch_rows = [sum(t * h * w for t, h, w in grids) for grids in images]
    frame_rows = [sum(s) for s in sounds]
    n = len(requests)
    patches = torch.zeros(n, max(patch_rows), width)
    mel = torch.zeros(n, max(frame_rows), ears["num_mel_bins"])
    grid, lengths = torch.zeros(n, 2, 3), torch.zeros(n, 2, 1)
    taps = {}

    def see(stack, number):
        return lambda module, args, kwargs: taps.setdefault((stack, number), []).append(args[0] if args else kwargs["hidden_states"])

    stacks = {"hidden": [*model.model.language_model.layers, model.lm_head], "encoder_hidden": [*model.model.visual.blocks, model.model.visual.merger],
              "audio_hidden": [*model.model.audio_tower.layers, model.model.audio_tower.ln_post]}
    hooks = [module.register_forward_pre_hook(see(stack, i), with_kwargs=True) for stack, modules in stacks.items() for i, module in enumerate(modules)]
    tokens, logits, greedy = [], [], []
    mid = {}
    for b, parts in enumerate(requests):
        ids = prompt(parts, m, length, g)[None]
        patches[b, :patch_rows[b]] = torch.randn(patch_rows[b], width, generator=g)
        mel[b, :frame_rows[b]] = torch.randn(frame_rows[b], mel.shape[2], generator=g)
        grid[b, :len(images[b])] = torch.tensor(images[b]) if images[b] else 0
        lengths[b, :len(sounds[b]), 0] = torch.tensor(sounds[b]) if sounds[b] else 0
        call = lambda row: model(**inputs_of(row, patches[b, :patch_rows[b]], images[b], mel[b, :frame_rows[b]], sounds[b]), use_cache=False)  # noqa: E731
        taps.clear()
        logits.append(call(ids).logits)
        for key, values in taps.items():
            value = values[0].reshape(-1, values[0].shape[-1])
            mid.setdefault(key, [torch.zeros(0, value.shape[-1])] * n)[b] = value
        tokens.append(ids)
        row = ids
        for _ in range(count):  # without a cache: the reference for any cache
            row = torch.cat([row, call(row).logits[:, -1].argmax(-1, keepdim=True)], 1)
            if row[0, -1] >= MOST_TEXT and row[0, -1] <= SOUND:
                for hook in hooks:
                    hook.remove()
                return None
        greedy.append(row[:, length:])
    for hook in hooks:
        hook.remove()
    out = {"in.input_ids": torch.cat(tokens), "in.pixel_values": patches, "in.pixel_values.rows": torch.tensor(patch_rows), "in.image_grid_thw": grid,
           "in.image_grid_thw.rows": torch.tensor([len(x) for x in images]), "in.input_features": mel, "in.input_features.rows": torch.tensor(frame_rows),
           "in.audio_feature_lengths": lengths, "in.audio_feature_lengths.rows": torch.tensor([len(x) for x in sounds]),
           "out.logits": torch.cat(logits), "out.greedy": torch.cat(greedy)}
    for (stack, i), values in mid.items():
        out[f"mid.{stack}.{i}"] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
        out[f"mid.{stack}.{i}.rows"] = torch.tensor([len(v) for v in values])
    return out


@torch.no_grad()
def write(folder, name, text, tower, ears, more):
    config = transformers.Qwen2_5OmniThinkerConfig(text_config=copy.deepcopy(text), vision_config=copy.deepcopy(tower), audio_config=copy.deepcopy(ears), **IDS | more)
    for part in (config, config.text_config, config.vision_config, config.audio_config):
        part._attn_implementation = "eager"
    model = transformers.Qwen2_5OmniThinkerForConditionalGeneration(config).eval().float()
    seed = zlib.crc32(name.encode())
    golden = None
    while golden is None:
        seed += 1
        fill(model, seed)
        golden = answers(model, tower, ears, seed)
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    usual = transformers.PreTrainedConfig().to_dict().keys() | {"_name_or_path"}
    written = json.loads((folder / "config.json").read_text())
    written = {key: {k: v for k, v in value.items() if k not in usual} if isinstance(value, dict) and "is_encoder_decoder" in value else value for key, value in written.items()}
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case = dict(arch="qwen2_5_omni_thinker", made_by="test/golden/make/qwen2_5_omni.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, greedy {golden['out.greedy'].tolist()}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
