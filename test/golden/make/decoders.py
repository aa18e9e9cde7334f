#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decoders.py OUT [NAME...]: reference cases of decoder-only models, by the installed transformers.

Each case is a folder OUT/NAME with a tiny random model and its answers (test/golden/README.md). The seed and CASES below make a case
again. Sizes are odd on purpose: heads are wider than hidden_size / heads where the type allows it, windows are shorter than the
prompt, rope is scaled. Weights are rounded to bfloat16, so that files are small and float32 computes with the very same numbers.
Needs torch, transformers and safetensors.
"""
import copy, json, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line

LM = dict(vocab_size=97, hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
          max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
LATENT = dict(q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10)
SLIDE, FULL, LINEAR_ATTENTION = "sliding_attention", "full_attention", "linear_attention"


def lm(**changes):
    return {k: v for k, v in (LM | changes).items() if v is not Ellipsis}


CASES = {
    "qwen2": ("Qwen2", lm(use_sliding_window=True, sliding_window=8, max_window_layers=1, tie_word_embeddings=True)),
    "gemma": ("Gemma", lm(head_dim=16)),
    "gemma2": ("Gemma2", lm(head_dim=16, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "gemma3_text": ("Gemma3Text", lm(head_dim=16, sliding_window=8, query_pre_attn_scalar=24, layer_types=[SLIDE, FULL, SLIDE],
                                     rope_parameters={FULL: dict(rope_type="linear", rope_theta=1e6, factor=8.0), SLIDE: dict(rope_type="default", rope_theta=10000.0)})),
    "phi": ("Phi", lm(num_key_value_heads=4, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.4))),
    "phi3": ("Phi3", lm(sliding_window=9)),
    "phi3_longrope": ("Phi3", lm(hidden_size=48, original_max_position_embeddings=128, max_position_embeddings=512, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=128, short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 3.0], long_factor=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))),
    "olmo2": ("Olmo2", lm()),
    "olmo3": ("Olmo3", lm(sliding_window=8, num_hidden_layers=4, rope_parameters={FULL: YARN, SLIDE: dict(rope_type="default", rope_theta=10000.0)})),
    "glm4": ("Glm4", lm(head_dim=16)),
    "granite": ("Granite", lm(embedding_multiplier=6.0, residual_multiplier=0.4, logits_scaling=4.0, attention_multiplier=0.2, attention_bias=True, tie_word_embeddings=True)),
    "cohere2": ("Cohere2", lm(sliding_window=8, num_hidden_layers=4, logit_scale=0.25)),
    "gpt2": ("GPT2", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)),
    "gpt_neox": ("GPTNeoX", lm(num_key_value_heads=..., rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.6))),
    "gpt_neox_serial": ("GPTNeoX", lm(num_key_value_heads=..., use_parallel_residual=False, attention_bias=False)),
    "starcoder2": ("Starcoder2", lm(sliding_window=8)),
    "falcon": ("Falcon", lm(num_key_value_heads=..., intermediate_size=..., new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False)),
    "falcon_new": ("Falcon", lm(num_key_value_heads=..., intermediate_size=..., num_kv_heads=2, new_decoder_architecture=True, bias=True, ffn_hidden_size=56)),
    "falcon_serial": ("Falcon", lm(num_key_value_heads=..., intermediate_size=..., multi_query=False, parallel_attn=False, bias=True)),
    "smollm3": ("SmolLM3", lm(num_hidden_layers=4)),
    "stablelm": ("StableLm", lm(hidden_size=64, use_qkv_bias=True)),
    "stablelm_parallel": ("StableLm", lm(hidden_size=64, use_parallel_residual=True)),
    "seed_oss": ("SeedOss", lm(head_dim=16, attention_out_bias=True)),
    "cwm": ("Cwm", lm(head_dim=16, sliding_window=8, num_hidden_layers=4, rope_parameters=LLAMA3)),
    "arcee": ("Arcee", lm(attention_bias=True, mlp_bias=True, rope_parameters=YARN)),
    "helium": ("Helium", lm(num_key_value_heads=4, head_dim=10, mlp_bias=True)),
    "ernie4_5": ("Ernie4_5", lm(head_dim=16, use_bias=True)),
    "exaone4": ("Exaone4", lm(head_dim=16, sliding_window=8, num_hidden_layers=4)),
    "glm": ("Glm", lm(head_dim=16)),
    "vaultgemma": ("VaultGemma", lm(head_dim=16, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "cohere": ("Cohere", lm(logit_scale=0.25, attention_bias=True)),
    "nemotron": ("Nemotron", lm(head_dim=12, mlp_bias=True)),
    "gptj": ("GPTJ", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=3, n_head=4, rotary_dim=6, bos_token_id=1, eos_token_id=2)),
    "gpt_bigcode": ("GPTBigCode", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)),
    "gpt_bigcode_heads": ("GPTBigCode", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=2, n_head=4, n_inner=56, multi_query=False, bos_token_id=1, eos_token_id=2)),
    "opt": ("OPT", lm(num_key_value_heads=..., intermediate_size=..., ffn_dim=56)),
    "biogpt": ("BioGpt", lm(num_key_value_heads=...)),
    "ministral": ("Ministral", lm(head_dim=16, sliding_window=8, layer_types=[FULL, SLIDE, SLIDE])),
    "olmo": ("Olmo", lm()),
    "jais2": ("Jais2", lm()),
    "mistral": ("Mistral", lm(head_dim=16, sliding_window=8)),
    "qwen2_moe": ("Qwen2Moe", lm( num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40, decoder_sparse_step=1,
                                 mlp_only_layers=[1], norm_topk_prob=False, use_sliding_window=True, sliding_window=8, max_window_layers=2)),
    "qwen3_moe": ("Qwen3Moe", lm(num_hidden_layers=2, head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, decoder_sparse_step=1, norm_topk_prob=True)),
    "olmoe": ("Olmoe", lm(num_hidden_layers=2, intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False)),
    "flex_olmo": ("FlexOlmo", lm(num_hidden_layers=2, intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True)),
    "granitemoe": ("GraniteMoe", lm(num_hidden_layers=2, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, embedding_multiplier=6.0, residual_multiplier=0.4, logits_scaling=4.0, attention_multiplier=0.2)),
    "granitemoeshared": ("GraniteMoeShared", lm(num_hidden_layers=2, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=24, embedding_multiplier=6.0, residual_multiplier=0.4,
                                                logits_scaling=4.0, attention_multiplier=0.2, tie_word_embeddings=True)),
    "dots1": ("Dots1", lm(num_hidden_layers=2, head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=24, first_k_dense_replace=1, n_group=2, topk_group=1,
                          norm_topk_prob=True, routed_scaling_factor=1.5, sliding_window=8, max_window_layers=1)),
    "glm4_moe": ("Glm4Moe", lm(num_hidden_layers=2, head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1, n_group=3, topk_group=2,
                               norm_topk_prob=True, routed_scaling_factor=1.5, use_qk_norm=True, attention_bias=True)),
    "solar_open": ("SolarOpen", lm(num_hidden_layers=2, head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True,
                                   routed_scaling_factor=1.5)),
    "ernie4_5_moe": ("Ernie4_5_Moe", lm(moe_num_experts=6, moe_k=2, moe_num_shared_experts=2, moe_intermediate_size=24, moe_layer_start_index=1, moe_layer_end_index=2,
                                        moe_layer_interval=2, use_bias=True)),
    "hunyuan_v1_moe": ("HunYuanMoEV1", lm(num_hidden_layers=2, intermediate_size=24, head_dim=16, num_experts=6, moe_topk=2)),
    "hunyuan_v1_dense": ("HunYuanDenseV1", lm(head_dim=16)),
    "minimax_m2": ("MiniMaxM2", lm(num_hidden_layers=2, intermediate_size=24, head_dim=16, num_local_experts=6, num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "hy_v3": ("HYV3", lm(num_hidden_layers=2, head_dim=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=24, router_scaling_factor=1.5)),
    "deepseek_v2": ("DeepseekV2", lm(num_hidden_layers=2, num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=24,
                                     first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.5, **LATENT,
                                     rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.6))),
    "deepseek_v2_plain": ("DeepseekV2", lm(num_hidden_layers=2, num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24,
                                           **LATENT | dict(q_lora_rank=None))),
    "glm4_moe_lite": ("Glm4MoeLite", lm(num_hidden_layers=2, num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, **LATENT)),
    # An indexer chooses fewer positions than the prompt has. With few heads, scores of 0 would be ties.
    "deepseek_v32": ("DeepseekV32", lm(num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1, n_group=3, topk_group=2,
                                       routed_scaling_factor=1.5, index_topk=7, index_n_heads=16, index_head_dim=18, **LATENT, rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.6))),
    # Two layers have the choice of the one before.
    "glm_moe_dsa": ("GlmMoeDsa", lm(num_hidden_layers=4, num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1,
                                    routed_scaling_factor=1.5, index_topk=5, index_n_heads=16, index_head_dim=16, indexer_types=["full", "shared", "full", "shared"], **LATENT)),
    "youtu": ("Youtu", lm(num_key_value_heads=4, rope_interleave=False, **LATENT)),
    "minicpm3": ("MiniCPM3", lm(num_key_value_heads=4, scale_emb=6.0, dim_model_base=20, **LATENT)),
    "hyperclovax": ("HyperCLOVAX", lm(head_dim=10, embedding_multiplier=6.0, residual_multiplier=0.4, logits_scaling=0.25, attention_multiplier=0.2)),
    "granite_swa": ("GraniteSWA", lm(num_hidden_layers=4, sliding_window=8, embedding_multiplier=6.0, residual_multiplier=0.4, logits_scaling=4.0, attention_multiplier=0.2,
                                     layer_rope_theta=[10000.0, 0, 500.0, 10000.0])),
    "granitemoe_swa": ("GraniteMoeSWA", lm(intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=24, sliding_window=8, embedding_multiplier=6.0,
                                           residual_multiplier=0.4, logits_scaling=4.0, attention_multiplier=0.2, layer_types=[SLIDE, FULL, SLIDE])),
    "exaone_moe": ("ExaoneMoe", lm(head_dim=16, num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, sliding_window=8, layer_types=[SLIDE, FULL, SLIDE])),
    "codegen": ("CodeGen", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=3, n_head=4, rotary_dim=6, bos_token_id=1, eos_token_id=2)),
    "mellum": ("Mellum", lm(num_hidden_layers=2, head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, sliding_window=8, layer_types=[SLIDE, FULL],
                            rope_parameters={FULL: YARN, SLIDE: dict(rope_type="default", rope_theta=10000.0)})),
    "openai-gpt": ("OpenAIGPT", dict(vocab_size=97, n_positions=64, n_embd=40, n_layer=2, n_head=4)),
    # States of recurrent layers, alone and beside pages.
    "mamba_wide": ("Mamba", dict(vocab_size=97, hidden_size=40, state_size=9, num_hidden_layers=3, conv_kernel=3, expand=3, time_step_rank=5, use_bias=True, use_conv_bias=False,
                                 tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    "jamba_wide": ("Jamba", lm(num_hidden_layers=5, attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=0, num_experts=6, num_experts_per_tok=3,
                               mamba_d_state=9, mamba_d_conv=3, mamba_expand=3, mamba_dt_rank=5, mamba_conv_bias=False, mamba_proj_bias=True, use_mamba_kernels=False)),
    "qwen3_next": ("Qwen3Next", lm(num_hidden_layers=4, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, num_experts=6,
                                   num_experts_per_tok=3, moe_intermediate_size=24, shared_expert_intermediate_size=40)),
    "qwen3_next_wide": ("Qwen3Next", lm(hidden_size=48, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=3, head_dim=24, linear_num_key_heads=3, linear_num_value_heads=3,
                                        linear_key_head_dim=20, linear_value_head_dim=10, linear_conv_kernel_dim=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                                        shared_expert_intermediate_size=24, norm_topk_prob=False, mlp_only_layers=[1], tie_word_embeddings=True, layer_types=[FULL, LINEAR_ATTENTION, FULL, FULL, LINEAR_ATTENTION])),
    "kimi_linear_wide": ("KimiLinear", dict(vocab_size=97, hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=20, qk_nope_head_dim=12,
                                            qk_rope_head_dim=8, v_head_dim=10, moe_intermediate_size=24, num_experts=6, num_experts_per_token=2, num_shared_experts=2, num_expert_group=3,
                                            topk_group=2, moe_renormalize=False, linear_head_dim=12, linear_num_heads=5, linear_conv_kernel_dim=3, model_max_length=128, tie_word_embeddings=False,
                                            layer_types=[FULL, LINEAR_ATTENTION, LINEAR_ATTENTION], mlp_layer_types=["sparse", "dense", "sparse"], pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    # Full layers have wider heads, and values are the products of keys; experts are beside an MLP.
    "gemma4_text": ("Gemma4Text", lm(num_hidden_layers=4, head_dim=12, global_head_dim=24, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=8, layer_types=[SLIDE, FULL, SLIDE, FULL],
                                     hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=24, final_logit_softcapping=3.0)),
    # The last three layers have the keys and values of others; every layer sees an embedding of its own.
    "gemma4_text_small": ("Gemma4Text", lm(num_hidden_layers=6, head_dim=16, global_head_dim=8, sliding_window=8, layer_types=[SLIDE, FULL, SLIDE, SLIDE, SLIDE, FULL], hidden_size_per_layer_input=12,
                                           vocab_size_per_layer_input=97, num_kv_shared_layers=3, use_double_wide_mlp=True)),
    "nanochat": ("NanoChat", lm(final_logit_softcapping=3.0)),
    "xglm": ("XGLM", dict(vocab_size=97, d_model=40, num_layers=3, attention_heads=4, ffn_dim=56, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=1, bos_token_id=0, eos_token_id=2)),
    "gpt_neo": ("GPTNeo", dict(vocab_size=97, hidden_size=40, num_layers=3, num_heads=4, max_position_embeddings=64, window_size=8, attention_types=[[["global", "local"], 1], [["local"], 1]],
                               bos_token_id=1, eos_token_id=2)),
    "ministral3": ("Ministral3", lm(head_dim=12, sliding_window=20, rope_parameters=YARN | dict(original_max_position_embeddings=8, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5))),
    "afmoe": ("Afmoe", lm(head_dim=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=2, moe_intermediate_size=24, sliding_window=8, layer_types=[SLIDE, FULL, SLIDE], num_dense_layers=1,
                          route_scale=1.5, mup_enabled=True)),
    "axk1": ("AXK1", lm(num_hidden_layers=2, num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=24, n_group=3, topk_group=2, **LATENT)),
    "bloom": ("Bloom", dict(vocab_size=97, tie_word_embeddings=False, hidden_size=48, n_layer=3, n_head=6, bos_token_id=1, eos_token_id=2)),
    "mpt": ("Mpt", dict(vocab_size=97, d_model=48, n_layers=3, n_heads=6, max_seq_len=64, attn_config=dict(softmax_scale=0.5), bos_token_id=1, eos_token_id=2)),
    "falcon_alibi": ("Falcon", lm(num_key_value_heads=..., intermediate_size=..., alibi=True, multi_query=False, parallel_attn=False, bias=True)),
    "apertus": ("Apertus", lm(head_dim=12, dtype="float32", rope_parameters=LLAMA3)),
    "phimoe": ("Phimoe", lm(num_hidden_layers=2, hidden_size=48, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.2, attention_bias=True, lm_head_bias=True, sliding_window=20,
                            max_position_embeddings=512, rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=128, short_mscale=1.2, long_mscale=1.2,
                                                                              short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 3.0], long_factor=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))),
    "persimmon": ("Persimmon", lm(hidden_size=48, num_key_value_heads=...)),
    "phi_norms": ("Phi", lm(hidden_size=48, qk_layernorm=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "bitnet": ("BitNet", lm()),
    "llama_bias": ("Llama", lm(head_dim=12, attention_bias=True, mlp_bias=True, rope_parameters=LINEAR)),
}


@torch.no_grad()
def fill(model, seed):
    """Unit gain, so that a wrong mask, rotation or scale shows in the answers."""
    random = torch.Generator().manual_seed(seed)
    # A model whose norm multiplies by 1 + weight has zeros there, others have ones.
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() == 1:
            centre = weight.mean().round() if name.endswith("weight") or ".router." in name else 0.0
            value = centre + (0.2 if name.endswith("weight") else 0.1) * noise
        elif any(word in name for word in ("embed", "wte", "wpe")):
            value = noise * (0.4 / weight.shape[1] ** 0.5 if model.config.tie_word_embeddings else 1.0)
        else:
            # Experts are one tensor.
            fan_in = weight.shape[-1] if weight.dim() == 3 else weight.shape[0] if type(model.get_submodule(name.rsplit(".", 1)[0])).__name__ == "Conv1D" else weight[0].numel()
            value = noise * 1.5 / fan_in**0.5
        weight.copy_(value.bfloat16())
    for name, bias in model.named_buffers():
        if name.endswith("correction_bias") or name.endswith("expert_bias"):
            bias.copy_((0.1 * torch.randn(bias.shape, generator=random)).bfloat16())
        if name.endswith("layer_scalar"):
            bias.copy_((1 + 0.3 * torch.randn(bias.shape, generator=random)).bfloat16())


@torch.no_grad()
def write(folder, name, kind, sizes, rows=2, length=24, more=10):
    config = getattr(transformers, kind + "Config")(**copy.deepcopy(sizes))
    # The eager Falcon adds the biases of ALiBi twice, to the scores and to the mask.
    config._attn_implementation = "sdpa" if sizes.get("alibi") else "eager"
    if kind == "Qwen3Next":  # in float32 the form by chunks is off by 1e-4 of the spread, token by token it is not
        rules = transformers.models.qwen3_next.modeling_qwen3_next
        rules.torch_chunk_gated_delta_rule = rules.torch_recurrent_gated_delta_rule
    kind = kind.replace("Gemma3Text", "Gemma3").replace("Gemma4Text", "Gemma4")
    model = getattr(transformers, kind + ("LMHeadModel" if kind in ("GPT2", "OpenAIGPT") else "ForCausalLM"))(config).eval().float()
    seed = zlib.crc32(name.encode())
    fill(model, seed)
    ids = torch.randint(3, sizes["vocab_size"], (rows, length), generator=torch.Generator().manual_seed(seed + 1))
    seen = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    row = ids[:1]
    for _ in range(more):  # without a cache: the reference for any cache
        row = torch.cat([row, model(input_ids=row, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
    golden = {"in.input_ids": ids, "out.logits": seen.logits, "out.greedy": row[:, length:]}
    golden |= {f"mid.hidden.{i}": hidden for i, hidden in enumerate(seen.hidden_states)}
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    saved = copy.deepcopy(model).bfloat16()
    # Constants of Apertus, which nobody reads, are no weights.
    weights = {key: tensor for key, tensor in saved.state_dict().items() if not key.endswith(("act_fn.beta", "act_fn.eps"))}
    saved.save_pretrained(folder, state_dict=weights)  # Hub layout
    (folder / "generation_config.json").unlink(missing_ok=True)
    # The library writes every key of a configuration into nested ones, too.
    written = json.loads((folder / "config.json").read_text())
    usual = transformers.PreTrainedConfig().to_dict().keys() | {"_name_or_path"}
    written = {key: {k: v for k, v in value.items() if k not in usual} if isinstance(value, dict) and "is_encoder_decoder" in value else value for key, value in written.items()}
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case = dict(arch=config.model_type, made_by="test/golden/make/decoders.py", seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, greedy {golden['out.greedy'][0].tolist()}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
