#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hunyuan_video.py OUT [NAME...]: reference cases of HunyuanVideo 1.5, by diffusers' HunyuanVideo15Pipeline with transformers' text encoders, in float64.

Names are those of the pipeline's folders, joined with those of their checkpoints. In each step the library computes the video with its text, then with its negative text;
mid.hidden.i is what layer i gives for the video, and mid.refined.i what the refiner gives for the text, where nothing is padded. Latents and videos are frames first,
channels last. Embedded times are computed in float64, where the library rounds to float32. Needs torch, diffusers, transformers and safetensors.
"""
import argparse, json, pathlib, zlib

import diffusers, torch, transformers
from diffusers.models.embeddings import Timesteps
from diffusers.models.transformers.transformer_hunyuan_video15 import HunyuanVideo15ByT5TextProjection
from safetensors.torch import save_file
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextModel

from sdxl import exact_times, fill, last

TEXT = dict(architectures=["Qwen2_5_VLTextModel"], model_type="qwen2_5_vl_text", hidden_act="silu", hidden_size=32, intermediate_size=44, num_attention_heads=4, num_key_value_heads=2,
            num_hidden_layers=4, rms_norm_eps=1e-6, use_sliding_window=False, vocab_size=101, rope_parameters=dict(rope_type="default", rope_theta=1000.0, mrope_section=[1, 1, 2]))
TEXT_2 = dict(architectures=["T5EncoderModel"], model_type="t5", d_model=24, d_ff=40, d_kv=6, num_heads=3, num_layers=2, vocab_size=77, relative_attention_num_buckets=12,
              relative_attention_max_distance=9, layer_norm_epsilon=1e-6, feed_forward_proj="gated-gelu", dense_act_fn="gelu_new", is_gated_act=True, dropout_rate=0.1)
TRANSFORMER = dict(_class_name="HunyuanVideo15Transformer3DModel", in_channels=9, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=2, num_refiner_layers=2, mlp_ratio=3.0,
                   patch_size=1, patch_size_t=1, qk_norm="rms_norm", text_embed_dim=32, text_embed_2_dim=24, context_embedder_2_dim=28, image_embed_dim=20, rope_theta=256.0,
                   rope_axes_dim=[4, 6, 6], target_size=16, task_type="t2v", use_meanflow=False)
VAE = dict(_class_name="AutoencoderKLHunyuanVideo15", in_channels=3, out_channels=3, latent_channels=4, block_out_channels=[8, 16, 16], layers_per_block=1, spatial_compression_ratio=4,
           temporal_compression_ratio=2, downsample_match_channel=True, upsample_match_channel=True, scaling_factor=1.3)
SCHEDULER = dict(_class_name="FlowMatchEulerDiscreteScheduler", num_train_timesteps=1000, shift=5.0, use_dynamic_shifting=False)
BASE = dict(architectures=["HunyuanVideo15Pipeline"], model_type="hunyuan_video", height=8, width=12, num_frames=5, num_inference_steps=3, guidance_scale=2.5, tokenizer_max_length=7,
            tokenizer_2_max_length=5, prompt_template_encode_start_idx=3, text_encoder=TEXT, text_encoder_2=TEXT_2, transformer=TRANSFORMER, vae=VAE, scheduler=SCHEDULER)
CASES = {
    # Padded texts, a video without words in it.
    "hunyuan_video": (BASE, [(7, 4), (5, 3)], [(5, 2), (0, 0)]),
    # No guidance, no padding, other depths, heads and shapes; two levels which slow the video down, one of the same width, and one frame of latents more.
    "hunyuan_video_wide": (BASE | dict(height=8, width=8, num_frames=9, num_inference_steps=2, guidance_scale=1.0, tokenizer_max_length=4, tokenizer_2_max_length=3,
                                       prompt_template_encode_start_idx=0,
                                       text_encoder=TEXT | dict(num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, rope_parameters=dict(rope_type="default", rope_theta=500.0, mrope_section=[2, 3, 3])),
                                       transformer=TRANSFORMER | dict(in_channels=17, out_channels=8, num_attention_heads=3, num_layers=3, num_refiner_layers=1,
                                                                      context_embedder_2_dim=20, rope_axes_dim=[2, 6, 8], mlp_ratio=2.0, rope_theta=100.0),
                                       vae=VAE | dict(latent_channels=8, temporal_compression_ratio=4, scaling_factor=0.8),
                                       scheduler=SCHEDULER | dict(shift=1.0)), [(4, 4)], [(3, 3)]),
}


def pipeline_of(c):
    made = lambda cls, key: cls.from_config({name: value for name, value in c[key].items() if name != "context_embedder_2_dim"})
    keys = lambda key: {name: value for name, value in c[key].items() if name not in ("architectures", "model_type")}
    t = c["transformer"]
    transformer = made(diffusers.HunyuanVideo15Transformer3DModel, "transformer")
    transformer.context_embedder_2 = HunyuanVideo15ByT5TextProjection(t["text_embed_2_dim"], t["context_embedder_2_dim"], t["num_attention_heads"] * t["attention_head_dim"])
    pipeline = diffusers.HunyuanVideo15Pipeline(
        scheduler=made(diffusers.FlowMatchEulerDiscreteScheduler, "scheduler"), vae=made(diffusers.AutoencoderKLHunyuanVideo15, "vae"), tokenizer=None, tokenizer_2=None,
        text_encoder=Qwen2_5_VLTextModel(Qwen2_5_VLTextConfig(**keys("text_encoder"))), text_encoder_2=transformers.T5EncoderModel(transformers.T5Config(**keys("text_encoder_2"))),
        transformer=transformer, guider=diffusers.ClassifierFreeGuidance(guidance_scale=c["guidance_scale"], enabled=c["guidance_scale"] != 1))
    pipeline.vision_num_semantic_tokens = 3
    return pipeline


def checkpoint_of(c, parts):
    """The tensors in use: the text model's last two layers and its norm are behind the states which the pipeline takes."""
    unused = ["vae.encoder.", "transformer.image_embedder.", "text_encoder.norm."] + [f"text_encoder.layers.{c['text_encoder']['num_hidden_layers'] - i}." for i in (1, 2)]
    weights = {}
    for folder, part in parts.items():
        for name, value in part.state_dict().items():
            name = f"{folder}.{name}"
            if not name.startswith(tuple(unused)) and not name.endswith(".encoder.embed_tokens.weight"):
                weights[name] = value.bfloat16().contiguous()
    return weights


@torch.no_grad()
def draw(c, pipeline, inputs):
    """The golden tensors of a batch."""
    seen, hooks = {}, []

    def watch(module, name, pick=last):
        hooks.append(module.register_forward_hook(lambda _, __, value: seen.setdefault(name, []).append(pick(value))))

    def plain(value):
        return value[0] if isinstance(value, tuple) else value

    for i, layer in enumerate(pipeline.text_encoder.layers[:-2]):
        watch(layer, f"mid.text_encoder.{i}", plain)
    if all(inputs[key].any(1).all() for key in inputs if "mask" in key):  # what a text without a token gives is nobody's matter
        for i, block in enumerate(pipeline.text_encoder_2.encoder.block):
            watch(block, f"mid.text_encoder_2.{i}", plain)
    for i, block in enumerate(pipeline.transformer.transformer_blocks):
        watch(block, f"mid.hidden.{i}", plain)
    if all(inputs[key].all() for key in inputs if "mask" in key):
        for i, block in enumerate(pipeline.transformer.context_embedder.token_refiner.refiner_blocks):
            watch(block, f"mid.refined.{i}", plain)
    for i, block in enumerate(pipeline.vae.decoder.up_blocks):
        watch(block, f"mid.vae.{i}", lambda value: value.movedim(1, -1).flatten(1, -2))
    crop, embeds = c["prompt_template_encode_start_idx"], {}
    for kind, prefix in (("prompt", ""), ("negative", "negative_")):
        if kind + "_ids" not in inputs:
            continue
        states = pipeline.text_encoder(input_ids=inputs[kind + "_ids"], attention_mask=inputs[kind + "_mask"], output_hidden_states=True).hidden_states[-3]
        words = pipeline.text_encoder_2(input_ids=inputs[kind + "_ids_2"], attention_mask=inputs[kind + "_mask_2"].double())[0]
        embeds |= {prefix + "prompt_embeds": states[:, crop:], prefix + "prompt_embeds_mask": inputs[kind + "_mask"][:, crop:], prefix + "prompt_embeds_2": words,
                   prefix + "prompt_embeds_mask_2": inputs[kind + "_mask_2"]}
    step, latents = pipeline.scheduler.step, []

    def stepped(*arguments, **more):
        value = step(*arguments, **more)
        latents.append(value[0].movedim(1, -1).flatten(1, -2))
        return value

    pipeline.scheduler.step = stepped
    out = pipeline(**embeds, height=c["height"], width=c["width"], num_frames=c["num_frames"], num_inference_steps=c["num_inference_steps"],
                   latents=inputs["noise"].double().movedim(-1, 1), output_type="latent", return_dict=False)[0]
    # One by one, because the library's mask does not fit a batch.
    video = torch.cat([pipeline.vae.decode(row[None] / c["vae"]["scaling_factor"], return_dict=False)[0] for row in out])
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(values, 0 if ".vae." in name else 1) for name, values in seen.items()} | {"mid.latents": torch.cat(latents, 1), "out.latents": out.movedim(1, -1), "out.video": video.movedim(1, -1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    Timesteps.forward = exact_times
    for name in arguments.names or CASES:
        c, lengths, lengths_2 = CASES[name]
        seed, rows = zlib.crc32(name.encode()), len(lengths)
        g = torch.Generator().manual_seed(seed)
        pipeline = pipeline_of(c)
        pipeline.set_progress_bar_config(disable=True)
        parts = {key: getattr(pipeline, key) for key in ("text_encoder", "text_encoder_2", "transformer", "vae")}
        for part in parts.values():
            fill(part, g)
        space, slow = c["vae"]["spatial_compression_ratio"], c["vae"]["temporal_compression_ratio"]
        inputs = {"noise": torch.randn(rows, (c["num_frames"] - 1) // slow + 1, c["height"] // space, c["width"] // space, c["vae"]["latent_channels"], generator=g)}
        for k, kind in enumerate(("prompt", "negative")[:1 if c["guidance_scale"] == 1 else 2]):
            crop = c["prompt_template_encode_start_idx"]
            for suffix, key, tokens, counts in (("", "text_encoder", crop + c["tokenizer_max_length"], [crop + pair[k] for pair in lengths]),
                                                ("_2", "text_encoder_2", c["tokenizer_2_max_length"], [pair[k] for pair in lengths_2])):
                inputs[kind + "_ids" + suffix] = torch.randint(0, c[key]["vocab_size"], (rows, tokens), generator=g)
                inputs[kind + "_mask" + suffix] = (torch.arange(tokens) < torch.tensor(counts)[:, None]).long()
        golden = {"in." + key: value for key, value in inputs.items()} | draw(c, pipeline, inputs)
        assert all(value.isfinite().all() for value in golden.values()), [key for key, value in golden.items() if not value.isfinite().all()]
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(checkpoint_of(c, parts), folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="hunyuan_video", made_by="test/golden/make/hunyuan_video.py", seed=seed, torch=torch.__version__.split("+")[0], diffusers=diffusers.__version__,
                    transformers=transformers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, latents {golden['out.latents'].std():.2f}, video {golden['out.video'].std():.2f}")


if __name__ == "__main__":
    main()
