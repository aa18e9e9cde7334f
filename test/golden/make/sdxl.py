#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdxl.py OUT [NAME...]: reference cases of Stable Diffusion XL, by transformers' text encoders and diffusers' U-Net, Euler steps and decoder, in float64.

Names are those of the pipeline's folders, joined with those of their checkpoints. mid.hidden.i is what level i of the U-Net gives in all steps, for the images with
their prompts; out.latents are the latents after each step. Images are channels last. Embedded times are computed in float64, where the library rounds to float32.
Needs torch, diffusers, transformers and safetensors.
"""
import argparse, json, math, pathlib, zlib

import diffusers, torch, transformers
from diffusers.models.embeddings import Timesteps
from safetensors.torch import save_file

TEXT = dict(architectures=["CLIPTextModel"], model_type="clip_text_model", hidden_act="quick_gelu", hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=3,
            max_position_embeddings=12, vocab_size=99, layer_norm_eps=1e-5, projection_dim=20, bos_token_id=0, pad_token_id=1, eos_token_id=2)
TEXT_2 = TEXT | dict(architectures=["CLIPTextModelWithProjection"], hidden_act="gelu", hidden_size=24, intermediate_size=40, num_attention_heads=2, num_hidden_layers=2)
UNET = dict(_class_name="UNet2DConditionModel", act_fn="silu", addition_embed_type="text_time", addition_embed_type_num_heads=64, addition_time_embed_dim=8, attention_head_dim=[2, 4],
            block_out_channels=[16, 32], center_input_sample=False, class_embed_type=None, cross_attention_dim=56, down_block_types=["DownBlock2D", "CrossAttnDownBlock2D"],
            downsample_padding=1, dual_cross_attention=False, flip_sin_to_cos=True, freq_shift=0, in_channels=4, layers_per_block=1, mid_block_scale_factor=1,
            mid_block_type="UNetMidBlock2DCrossAttn", norm_eps=1e-5, norm_num_groups=4, only_cross_attention=False, out_channels=4, projection_class_embeddings_input_dim=68,
            resnet_time_scale_shift="default", sample_size=8, transformer_layers_per_block=[1, 2], up_block_types=["CrossAttnUpBlock2D", "UpBlock2D"], use_linear_projection=True)
VAE = dict(_class_name="AutoencoderKL", act_fn="silu", block_out_channels=[8, 16], down_block_types=["DownEncoderBlock2D"] * 2, force_upcast=True, in_channels=3, latent_channels=4,
           layers_per_block=1, norm_num_groups=4, out_channels=3, sample_size=16, scaling_factor=0.13025, up_block_types=["UpDecoderBlock2D"] * 2)
SCHEDULER = dict(_class_name="EulerDiscreteScheduler", beta_end=0.012, beta_schedule="scaled_linear", beta_start=0.00085, clip_sample=False, interpolation_type="linear",
                 num_train_timesteps=1000, prediction_type="epsilon", sample_max_value=1.0, set_alpha_to_one=False, skip_prk_steps=True, steps_offset=1, timestep_spacing="leading",
                 trained_betas=None, use_karras_sigmas=False)
BASE = dict(architectures=["StableDiffusionXLPipeline"], model_type="sdxl", height=16, width=12, num_inference_steps=3, guidance_scale=2.5, text_encoder=TEXT, text_encoder_2=TEXT_2,
            unet=UNET, vae=VAE, scheduler=SCHEDULER)
CASES = {
    "sdxl": (BASE, 2),
    # No guidance, three levels, other depths and heads, a wide image, another end of texts, velocities, other times, a deeper decoder.
    "sdxl_wide": (BASE | dict(height=16, width=32, num_inference_steps=2, guidance_scale=1.0,
                              text_encoder=TEXT | dict(eos_token_id=7, num_hidden_layers=2, hidden_size=20, num_attention_heads=2, max_position_embeddings=9),
                              text_encoder_2=TEXT_2 | dict(eos_token_id=7, projection_dim=10, max_position_embeddings=9),
                              unet=UNET | dict(block_out_channels=[8, 16, 24], attention_head_dim=[1, 2, 3], transformer_layers_per_block=[1, 1, 2], layers_per_block=2, cross_attention_dim=44,
                                               down_block_types=["CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"],
                                               up_block_types=["CrossAttnUpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"], projection_class_embeddings_input_dim=58, norm_eps=1e-3),
                              vae=VAE | dict(block_out_channels=[4, 8, 8], down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3, norm_num_groups=2,
                                             scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False),
                              scheduler=SCHEDULER | dict(prediction_type="v_prediction", timestep_spacing="linspace", beta_schedule="linear")), 1),
}
# Parts of checkpoints which no request needs.
UNUSED = ("vae.encoder.", "vae.quant_conv.")


def exact_times(self, timesteps):
    """Timesteps.forward in float64."""
    half = self.num_channels // 2
    angles = timesteps.double()[:, None] * torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / (half - self.downscale_freq_shift))[None] * self.scale
    parts = [angles.cos(), angles.sin()] if self.flip_sin_to_cos else [angles.sin(), angles.cos()]
    return torch.cat(parts, -1)


def parts_of(c):
    def made(cls, key):
        return cls.from_config({name: value for name, value in c[key].items()})

    def text(cls, key):
        return cls(transformers.CLIPTextConfig(**{name: value for name, value in c[key].items() if name not in ("architectures", "model_type")}))

    return {"text_encoder": text(transformers.CLIPTextModel, "text_encoder"), "text_encoder_2": text(transformers.CLIPTextModelWithProjection, "text_encoder_2"),
            "unet": made(diffusers.UNet2DConditionModel, "unet"), "vae": made(diffusers.AutoencoderKL, "vae")}


def fill(part, generator):
    """Random weights that bfloat16 holds."""
    for name, value in part.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if "embedding" in name and value.dim() == 2 and "embeddings" in name:
            pass
        elif value.dim() > 1:
            noise = noise * 1.2 / noise[0].numel() ** 0.5
        elif name.endswith("weight"):
            noise = 1 + 0.2 * noise
        else:
            noise = 0.1 * noise
        value.data = noise.bfloat16().double()
    part.double().eval()


def checkpoint_of(c, parts):
    # The condition comes from in front of the first encoder's last layer.
    unused = (*UNUSED, f"text_encoder.text_model.encoder.layers.{c['text_encoder']['num_hidden_layers'] - 1}.", "text_encoder.text_model.final_layer_norm.")
    weights = {}
    for folder, part in parts.items():
        for name, value in part.state_dict().items():
            # Published checkpoints have the text model below this name, and the library of today leaves it out.
            if folder.startswith("text") and not name.startswith(("text_model.", "text_projection")):
                name = "text_model." + name
            name = f"{folder}.{name}"
            if not name.startswith(unused) and "position_ids" not in name:
                weights[name] = value.bfloat16().contiguous()
    return weights


def last(value):
    """[B, C, rows, columns] as [B, pixels, C]."""
    return value.flatten(2).transpose(1, 2)


@torch.no_grad()
def draw(c, parts, ids, noise):
    """The golden tensors of a batch. `ids`: by name, of both encoders."""
    out, copies = {}, 2 if c["guidance_scale"] != 1 else 1
    rows, contexts, pooled = len(noise), [], None
    for i, key in enumerate(["text_encoder", "text_encoder_2"]):
        names = [name + ("_2" if i else "") for name in ("prompt_ids", "negative_ids")][:copies]
        result = parts[key](torch.cat([ids[name] for name in names]), output_hidden_states=True)
        contexts.append(result.hidden_states[-2])
        taps = result.hidden_states[1:-1] if i == 0 else result.hidden_states[1:]
        out |= {f"mid.{key}.text_model.{j}": states[:rows] for j, states in enumerate(taps)}
        pooled = result.text_embeds if i else None
    context = torch.cat(contexts, -1)
    out["mid.context"] = context[:rows]
    scheduler = diffusers.EulerDiscreteScheduler.from_config(c["scheduler"])
    scheduler.set_timesteps(c["num_inference_steps"])
    times = torch.tensor([[c["height"], c["width"], 0, 0, c["height"], c["width"]]] * len(context), dtype=torch.float64)
    unet, vae, seen, levels, latents = parts["unet"], parts["vae"], [], [], []
    first = lambda value: value[0] if isinstance(value, tuple) else value
    hooks = [block.register_forward_hook(lambda _, __, value: seen.append(last(first(value)[:rows]))) for block in [*unet.down_blocks, unet.mid_block, *unet.up_blocks]]
    hooks.append(unet.add_embedding.register_forward_hook(lambda _, __, value: out.__setitem__("mid.added", value[:rows])))
    latent = noise.movedim(-1, 1) * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        seen.clear()
        sample = scheduler.scale_model_input(torch.cat([latent] * copies), t)
        both = unet(sample, t, encoder_hidden_states=context, added_cond_kwargs=dict(text_embeds=pooled, time_ids=times)).sample
        with_text, without = both[:rows], both[-rows:]
        latent = scheduler.step(without + c["guidance_scale"] * (with_text - without), t, latent).prev_sample
        levels.append(list(seen))
        latents.append(last(latent))
    out |= {f"mid.hidden.{i}": torch.cat(steps, 1) for i, steps in enumerate(zip(*levels))}
    for i, block in enumerate(vae.decoder.up_blocks):
        block.register_forward_hook(lambda _, __, value, i=i: out.__setitem__(f"mid.vae.{i}", last(value)))
    image = vae.decode(latent / vae.config.scaling_factor + (vae.config.shift_factor or 0)).sample
    for hook in hooks:
        hook.remove()
    return out | {"mid.latents": torch.cat(latents, 1), "out.latents": latent.movedim(1, -1), "out.image": image.movedim(1, -1)}


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
        parts = parts_of(c)
        for part in parts.values():
            fill(part, g)
        factor = 2 ** (len(c["vae"]["block_out_channels"]) - 1)
        noise = torch.randn(rows, c["height"] // factor, c["width"] // factor, c["unet"]["in_channels"], generator=g).double()
        ids = {}
        for key in ("prompt_ids", "negative_ids")[:2 if c["guidance_scale"] != 1 else 1]:
            for suffix, text in (("", "text_encoder"), ("_2", "text_encoder_2")):
                ids[key + suffix] = torch.randint(3, c[text]["vocab_size"], (rows, c[text]["max_position_embeddings"]), generator=g)
                ids[key + suffix][:, 5] = ids[key + suffix][:, 7] = c[text]["eos_token_id"]  # the first one ends the text
        golden = {"in.noise": noise} | {"in." + key: value for key, value in ids.items()} | draw(c, parts, ids, noise)
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(checkpoint_of(c, parts), folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="sdxl", made_by="test/golden/make/sdxl.py", seed=seed, torch=torch.__version__.split("+")[0], diffusers=diffusers.__version__, transformers=transformers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, latents {golden['out.latents'].std():.2f}, image {golden['out.image'].std():.2f}")


if __name__ == "__main__":
    main()
