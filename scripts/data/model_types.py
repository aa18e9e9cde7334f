#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model_types.py: writes registry/model_types.json, which `fk-host coverage` counts, from the installed transformers.

The file has, for every model type with a model of its own, its classes and the ops that its source calls. Sources are parsed and
never imported. A call of torch stands for an op by OPS; a call of FREE is a view, a mask or arithmetic that needs no op; every
other call is listed by its own name, which no op has. So a type whose ops all exist can be built from them, as far as its calls tell.
"""
import ast, json, pathlib

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto import modeling_auto

OUT = pathlib.Path(__file__).resolve().parents[2] / "registry" / "model_types.json"
OPS = {
    "nn.Linear": "linear", "nn.Embedding": "embedding", "nn.LayerNorm": "layer_norm", "nn.RMSNorm": "rms_norm", "nn.GELU": "gelu", "nn.SiLU": "activation",
    "nn.ReLU": "activation", "nn.Tanh": "activation", "nn.Sigmoid": "activation", "nn.Conv2d": "conv2d", "nn.Conv1d": "conv2d", "nn.Conv3d": "conv3d",
    "nn.BatchNorm2d": "batch_norm", "nn.BatchNorm1d": "batch_norm", "nn.GroupNorm": "group_norm", "nn.MaxPool2d": "pool2d", "nn.AvgPool2d": "pool2d",
    "nn.AdaptiveAvgPool2d": "mean_pool", "nn.AdaptiveAvgPool1d": "mean_pool", "nn.ConvTranspose2d": "conv_transpose2d", "nn.ConvTranspose1d": "conv_transpose2d",
    "nn.Upsample": "resize2d", "nn.PixelShuffle": "space_to_depth", "nn.Softmax": "attention_varlen", "functional.softmax": "attention_varlen",
    "functional.gelu": "gelu", "functional.silu": "activation", "functional.relu": "activation", "functional.sigmoid": "activation", "functional.tanh": "activation",
    "functional.linear": "linear", "functional.layer_norm": "layer_norm", "functional.normalize": "l2_norm", "functional.embedding": "embedding",
    "functional.interpolate": "resize2d", "functional.max_pool2d": "pool2d", "functional.avg_pool2d": "pool2d", "functional.adaptive_avg_pool2d": "mean_pool",
    "functional.conv2d": "conv2d", "functional.conv1d": "conv2d", "functional.scaled_dot_product_attention": "attention_varlen", "functional.grid_sample": "grid_sample",
    "functional.batch_norm": "batch_norm", "functional.softplus": "softplus", "functional.log_softmax": "token_logprob", "functional.embedding_bag": "embedding_bag",
    "torch.topk": "topk_softmax", "torch.softmax": "attention_varlen", "torch.matmul": "linear", "torch.bmm": "batched_linear", "torch.baddbmm": "attention_varlen",
    "torch.sigmoid": "activation", "torch.tanh": "activation", "torch.relu": "activation", "torch.einsum": "einsum", "torch.sort": "sort_rows",
    "torch.argsort": "sort_rows", "torch.stft": "stft", "torch.istft": "istft",
}
FREE_NN = set("Module ModuleList ModuleDict Parameter ParameterList ParameterDict Sequential Dropout Dropout2d Identity Buffer CrossEntropyLoss MSELoss BCEWithLogitsLoss L1Loss "
              "SmoothL1Loss KLDivLoss NLLLoss BCELoss Flatten Unflatten ZeroPad2d ReflectionPad2d".split())
FREE_F = set("pad dropout cross_entropy one_hot mse_loss binary_cross_entropy_with_logits binary_cross_entropy kl_div l1_loss smooth_l1_loss nll_loss unfold ctc_loss".split())
FREE_TORCH = set("Tensor FloatTensor LongTensor Generator Size device dtype no_grad tensor zeros ones empty full arange zeros_like ones_like empty_like full_like linspace cat concat "
                 "stack split chunk reshape permute transpose unsqueeze squeeze flatten repeat_interleave broadcast_to broadcast_tensors expand_copy meshgrid outer where masked_fill "
                 "tril triu eq ne ge gt le lt logical_and logical_or logical_not isin isinf isnan any all is_tensor is_floating_point is_autocast_enabled is_grad_enabled finfo iinfo "
                 "set_grad_enabled autocast cos sin sqrt rsqrt mean sum var max min maximum minimum clamp clip abs pow square exp log mul add sub div neg round floor ceil "
                 "nonzero gather index_select scatter argmax argmin roll flip diff prod unique_consecutive bincount randn rand randint rand_like randn_like normal bernoulli randperm "
                 "get_default_dtype set_default_dtype from_numpy as_tensor is_complex numel jit compile no_op finfo iinfo eye diag diagonal allclose equal manual_seed cartesian_prod "
                 "empty_strided view_as_complex view_as_real polar log1p sign count_nonzero bitwise_and bitwise_or zeros_ narrow movedim swapaxes unbind hstack vstack tile ravel "
                 "float_power greater isfinite argwhere concatenate nan_to_num histc load cumsum logsumexp reciprocal true_divide floor_divide remainder fmod atleast_1d promote_types result_type inference_mode enable_grad vmap func".split())


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts + [node.id])) if isinstance(node, ast.Name) else ""


def ops_of(source):
    """The ops of a modeling file, by its calls."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        name = name.replace("torch.nn.functional.", "F.").replace("nn.functional.", "F.").replace("torch.nn.", "nn.")
        head, _, leaf = name.partition(".")
        if head == "nn" and "." not in leaf and leaf[:1].isupper() and leaf not in FREE_NN:
            found.add(OPS.get(name, name))
        elif head == "F" and leaf not in FREE_F:
            found.add(OPS.get("functional." + leaf, "functional." + leaf))
        elif head == "torch" and "." not in leaf and leaf not in FREE_TORCH:
            found.add(OPS.get(name, name))
        elif head == "torch" and leaf.split(".")[0] in ("fft", "linalg", "special"):
            found.add(name)
    for word, op in (("apply_rotary", "rotary_embedding"), ("ALL_ATTENTION_FUNCTIONS", "attention_varlen"), ("RMSNorm", "rms_norm"),
                     ("load_backbone", "another model"), ("AutoModel.from_config(", "another model"), ("AutoBackbone", "another model")):
        if word in source:
            found.add(op)
    return sorted(found)


def main():
    classes = {}
    for name in dir(modeling_auto):
        if name.startswith("MODEL") and name.endswith("MAPPING_NAMES"):
            for kind, made in getattr(modeling_auto, name).items():
                classes.setdefault(kind, set()).update([made] if isinstance(made, str) else made)
    folder = pathlib.Path(transformers.__file__).parent / "models"
    types = []
    for kind in sorted(CONFIG_MAPPING_NAMES):
        module = transformers.models.auto.configuration_auto.model_type_to_module_name(kind)
        file = folder / module / f"modeling_{module}.py"
        if file.exists():
            types.append({"type": kind, "architectures": sorted(classes.get(kind, [])), "ops": ops_of(file.read_text())})
    lines = ",\n".join("  " + json.dumps(t) for t in types)
    OUT.write_text(f'{{"transformers": "{transformers.__version__}",\n "types": [\n{lines}\n]}}\n')
    print(f"{OUT}: {len(types)} model types of transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
