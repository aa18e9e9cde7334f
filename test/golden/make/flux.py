#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flux.py OUT [NAME...]: reference cases of FLUX.1, by diffusers' FluxPipeline with transformers' text encoders, in float64.

Names are those of the pipeline's folders, joined with those of their checkpoints. mid.image.i and mid.text.i are what layer i of two streams gives in all steps, and
mid.tokens.i layer i of one stream. Latents are those of patches, as the pipeline returns them. Images are channels last. Embedded times are computed in float64, where
the library rounds to float32. Needs torch, diffusers, transformers and safetensors.
"""
import argparse, json, pathlib, zlib

import diffusers, torch, transformers
from diffusers.models.embeddings import Timesteps
from safetensors.torch import save_file

from sdxl import UNUSED, exact_times, fill, last

TEXT = dict(architectures=["CLIPTextModel"], model_type="clip_text_model", hidden_act="quick_gelu", hidden_size=20, intermediate_size=28, num_attention_heads=2, num_hidden_layers=2,
            max_position_embeddings=9, vocab_size=99, layer_norm_eps=1e-5, projection_dim=20, bos_token_id=0, pad_token_id=1, eos_token_id=2)
# Distances up to three are kinds of their own, and there are three wider kinds.
TEXT_2 = dict(architectures=["T5EncoderModel"], model_type="t5", d_model=24, d_ff=40, d_kv=6, num_heads=3, num_layers=2, vocab_size=77, relative_attention_num_buckets=12,
              relative_attention_max_distance=9, layer_norm_epsilon=1e-6, feed_forward_proj="gated-gelu", dense_act_fn="gelu_new", is_gated_act=True, dropout_rate=0.1)
TRANSFORMER = dict(_class_name="FluxTransformer2DModel", patch_size=1, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=3,
                   joint_attention_dim=24, pooled_projection_dim=20, guidance_embeds=True, axes_dims_rope=[4, 4, 8])
VAE = dict(_class_name="AutoencoderKL", act_fn="silu", block_out_channels=[8, 16], down_block_types=["DownEncoderBlock2D"] * 2, force_upcast=True, in_channels=3, latent_channels=4,
           layers_per_block=1, norm_num_groups=4, out_channels=3, sample_size=16, scaling_factor=0.3611, shift_factor=0.1159, up_block_types=["UpDecoderBlock2D"] * 2,
           use_quant_conv=False, use_post_quant_conv=False, mid_block_add_attention=True)
SCHEDULER = dict(_class_name="FlowMatchEulerDiscreteScheduler", base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, num_train_timesteps=1000, shift=3.0,
                 use_dynamic_shifting=True)
BASE = dict(architectures=["FluxPipeline"], model_type="flux", height=16, width=24, num_inference_steps=3, guidance_scale=3.5, max_sequence_length=11, text_encoder=TEXT,
            text_encoder_2=TEXT_2, transformer=TRANSFORMER, vae=VAE, scheduler=SCHEDULER)
CASES = {
    "flux": (BASE, 2),
    # Without an embedding of guidance, times of FLUX.1-schnell, other depths and heads, a wide image, a long text with far distances, another end of texts.
    "flux_wide": (BASE | dict(height=8, width=64, num_inference_steps=2, max_sequence_length=33,
                              text_encoder=TEXT | dict(eos_token_id=7, num_hidden_layers=3, hidden_size=16, num_attention_heads=4, hidden_act="gelu"),
                              text_encoder_2=TEXT_2 | dict(d_model=32, d_kv=10, num_heads=2, d_ff=24, num_layers=3, relative_attention_num_buckets=8, relative_attention_max_distance=20),
                              transformer=TRANSFORMER | dict(in_channels=32, num_layers=1, num_single_layers=3, attention_head_dim=12, num_attention_heads=4, joint_attention_dim=32,
                                                             pooled_projection_dim=16, guidance_embeds=False, axes_dims_rope=[2, 4, 6]),
                              vae=VAE | dict(latent_channels=8, block_out_channels=[8, 8], layers_per_block=2, norm_num_groups=2),
                              scheduler=SCHEDULER | dict(use_dynamic_shifting=False, shift=1.0)), 1),
}


def pipeline_of(c):
    made = lambda cls, key: cls.from_config(dict(c[key]))
    keys = lambda key: {name: value for name, value in c[key].items() if name not in ("architectures", "model_type")}
    return diffusers.FluxPipeline(
        scheduler=made(diffusers.FlowMatchEulerDiscreteScheduler, "scheduler"), vae=made(diffusers.AutoencoderKL, "vae"), tokenizer=None, tokenizer_2=None,
        text_encoder=transformers.CLIPTextModel(transformers.CLIPTextConfig(**keys("text_encoder"))),
        text_encoder_2=transformers.T5EncoderModel(transformers.T5Config(**keys("text_encoder_2"))),
        transformer=made(diffusers.FluxTransformer2DModel, "transformer"))


def checkpoint_of(parts):
    weights = {}
    for folder, part in parts.items():
        for name, value in part.state_dict().items():
            # Published checkpoints have the text model below this name, and the library of today leaves it out.
            if folder == "text_encoder" and not name.startswith("text_model."):
                name = "text_model." + name
            name = f"{folder}.{name}"
            if not name.startswith(UNUSED) and not name.endswith(("position_ids", "embed_tokens.weight")):
                weights[name] = value.bfloat16().contiguous()
    return weights


@torch.no_grad()
def draw(c, pipeline, ids, ids_2, noise):
    """The golden tensors of a batch."""
    out, seen, transformer, vae = {}, {}, pipeline.transformer, pipeline.vae
    hooks = []

    def watch(module, keep):
        hooks.append(module.register_forward_hook(lambda _, __, value: keep(value)))

    def steps(name, pick):
        return lambda value: seen.setdefault(name, []).append(pick(value))

    for i, layer in enumerate(pipeline.text_encoder.encoder.layers if hasattr(pipeline.text_encoder, "encoder") else pipeline.text_encoder.text_model.encoder.layers):
        watch(layer, lambda value, i=i: out.__setitem__(f"mid.text_encoder.text_model.{i}", value[0] if isinstance(value, tuple) else value))
    for i, block in enumerate(pipeline.text_encoder_2.encoder.block):
        watch(block, lambda value, i=i: out.__setitem__(f"mid.text_encoder_2.{i}", value[0] if isinstance(value, tuple) else value))
    for i, block in enumerate(transformer.transformer_blocks):
        watch(block, steps(f"mid.image.{i}", lambda value: value[1]))
        watch(block, steps(f"mid.text.{i}", lambda value: value[0]))
    for i, block in enumerate(transformer.single_transformer_blocks):
        watch(block, steps(f"mid.tokens.{i}", lambda value: torch.cat(value, 1)))
    for i, block in enumerate(vae.decoder.up_blocks):
        watch(block, lambda value, i=i: out.__setitem__(f"mid.vae.{i}", last(value)))
    pooled = pipeline.text_encoder(ids).pooler_output
    text = pipeline.text_encoder_2(ids_2)[0]
    out |= {"mid.pooled": pooled, "mid.text": text}

    def stepped(_, __, ___, values):
        seen.setdefault("mid.latents", []).append(values["latents"])
        return {}

    latent = pipeline(prompt_embeds=text, pooled_prompt_embeds=pooled, height=c["height"], width=c["width"], num_inference_steps=c["num_inference_steps"],
                      guidance_scale=c["guidance_scale"], latents=noise, output_type="latent", return_dict=False, callback_on_step_end=stepped)[0]
    image = pipeline._unpack_latents(latent, c["height"], c["width"], pipeline.vae_scale_factor)
    image = vae.decode(image / vae.config.scaling_factor + vae.config.shift_factor).sample
    for hook in hooks:
        hook.remove()
    return out | {name: torch.cat(values, 1) for name, values in seen.items()} | {"out.latents": latent, "out.image": image.movedim(1, -1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    Timesteps.forward = exact_times
    for name in arguments.names or CASES:
        c, rows = CASES[name]
        seed = zlib.crc32(name.encode())
        g = torch.Generator().manual_seed(seed)
        pipeline = pipeline_of(c)
        pipeline.set_progress_bar_config(disable=True)
        parts = {key: getattr(pipeline, key) for key in ("text_encoder", "text_encoder_2", "transformer", "vae")}
        for part in parts.values():
            fill(part, g)
        patch = 2 ** len(c["vae"]["block_out_channels"])
        noise = torch.randn(rows, (c["height"] // patch) * (c["width"] // patch), c["transformer"]["in_channels"], generator=g).double()
        ids = torch.randint(3, c["text_encoder"]["vocab_size"], (rows, c["text_encoder"]["max_position_embeddings"]), generator=g)
        if c["text_encoder"]["eos_token_id"] == 2:
            ids[:, 5] = ids[:, 7] = c["text_encoder"]["vocab_size"] - 1  # texts of the first CLIP end at the largest token
        else:
            ids[:, 5] = ids[:, 7] = c["text_encoder"]["eos_token_id"]
        ids_2 = torch.randint(0, c["text_encoder_2"]["vocab_size"], (rows, c["max_sequence_length"]), generator=g)
        golden = {"in.noise": noise, "in.prompt_ids": ids, "in.prompt_ids_2": ids_2} | draw(c, pipeline, ids, ids_2, noise)
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(checkpoint_of(parts), folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="flux", made_by="test/golden/make/flux.py", seed=seed, torch=torch.__version__.split("+")[0], diffusers=diffusers.__version__, transformers=transformers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, latents {golden['out.latents'].std():.2f}, image {golden['out.image'].std():.2f}")


if __name__ == "__main__":
    main()
