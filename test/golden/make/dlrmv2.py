#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dlrmv2.py OUT [NAME...]: reference cases of DLRM in torch, float64, from the papers (arXiv 1906.00091, 2008.13535), in the names of torchrec's checkpoints.

in.cat_i has the ids of category i, as floats. mid.hidden.i are the bottom MLP, all bags side by side, the interaction, and the layers of the top MLP.
Bags and pairs are sums by their definition. Needs torch and safetensors.
"""
import argparse, json, pathlib, zlib

import torch
from safetensors.torch import save_file

BASE = dict(architectures=["DLRM"], model_type="dlrmv2", dense_in_features=13, num_embeddings_per_feature=[40, 7, 300, 3, 25], embedding_dim=16, dense_arch_layer_sizes=[48, 24, 16],
            over_arch_layer_sizes=[40, 24, 1], interaction_type="original")
CASES = {
    "dlrmv2": (BASE, 24),
    # Crosses in place of dots, bags of several ids, another number of layers, odd widths.
    "dlrmv2_wide": (BASE | dict(architectures=["DLRM_DCN"], dense_in_features=5, num_embeddings_per_feature=[9, 2500, 31], multi_hot_sizes=[3, 1, 5], embedding_dim=12,
                                dense_arch_layer_sizes=[20, 12], over_arch_layer_sizes=[33, 18, 10, 1], interaction_type="dcn", dcn_num_layers=3, dcn_low_rank_dim=7), 17),
}
TABLE, CROSS = "sparse_arch.embedding_bag_collection.embedding_bags.t_cat_{}.weight", "inter_arch.crossnet."


def make_weights(c, seed):
    g, w = torch.Generator().manual_seed(seed), {}

    def normal(name, *shape, scale):
        w[name] = (scale * torch.randn(shape, generator=g)).bfloat16()

    def linear(name, out, of):
        normal(name + ".weight", out, of, scale=1.4 / of**0.5)
        normal(name + ".bias", out, scale=0.1)

    of, features = c["dense_in_features"], len(c["num_embeddings_per_feature"]) + 1
    for i, width in enumerate(c["dense_arch_layer_sizes"]):
        linear(f"dense_arch.model._mlp.{i}._linear", width, of)
        of = width
    for i, rows in enumerate(c["num_embeddings_per_feature"]):
        normal(TABLE.format(i), rows, c["embedding_dim"], scale=c["embedding_dim"] ** -0.25)
    of = c["embedding_dim"] + features * (features - 1) // 2
    if c["interaction_type"] == "dcn":
        of, rank = features * c["embedding_dim"], c["dcn_low_rank_dim"]
        for i in range(c["dcn_num_layers"]):
            normal(f"{CROSS}V_kernels.{i}", rank, of, scale=of**-0.5)
            normal(f"{CROSS}W_kernels.{i}", of, rank, scale=rank**-0.5)
            normal(f"{CROSS}bias.{i}", of, 1, scale=0.1)
    top = c["over_arch_layer_sizes"]
    for i, width in enumerate(top):
        linear(f"over_arch.model.0._mlp.{i}._linear" if i + 1 < len(top) else "over_arch.model.1", width, of)
        of = width
    return w


def score(c, weights, dense, ids):
    """Logits, and the results of the parts."""
    w, x = {name: value.double() for name, value in weights.items()}, dense
    linear = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
    for i in range(len(c["dense_arch_layer_sizes"])):
        x = linear(x, f"dense_arch.model._mlp.{i}._linear").clamp(min=0)
    bags = torch.stack([w[TABLE.format(i)][chosen].sum(1) for i, chosen in enumerate(ids)], 1)
    seen, all_rows = [x, bags.flatten(1)], torch.cat([x[:, None], bags], 1)
    if c["interaction_type"] == "dcn":
        first = x = all_rows.flatten(1)
        for i in range(c["dcn_num_layers"]):
            x = first * (x @ w[f"{CROSS}V_kernels.{i}"].T @ w[f"{CROSS}W_kernels.{i}"].T + w[f"{CROSS}bias.{i}"].T) + x
    else:
        features = all_rows.shape[1]
        dots = [(all_rows[:, i] * all_rows[:, j]).sum(-1) for i in range(features) for j in range(i + 1, features)]
        x = torch.cat([x, torch.stack(dots, 1)], 1)
    seen.append(x)
    for i in range(len(c["over_arch_layer_sizes"]) - 1):
        x = linear(x, f"over_arch.model.0._mlp.{i}._linear").clamp(min=0)
        seen.append(x)
    return linear(x, "over_arch.model.1"), seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        c, rows = CASES[name]
        seed = zlib.crc32(name.encode())
        weights, g = make_weights(c, seed), torch.Generator().manual_seed(seed + 1)
        dense = torch.randn(rows, c["dense_in_features"], generator=g)
        bags = c.get("multi_hot_sizes", [1] * len(c["num_embeddings_per_feature"]))
        ids = [torch.randint(0, count, (rows, bag), generator=g) for count, bag in zip(c["num_embeddings_per_feature"], bags)]
        logits, seen = score(c, weights, dense.double(), ids)
        golden = {"in.dense": dense, "out.logits": logits} | {f"in.cat_{i}": chosen for i, chosen in enumerate(ids)} | {f"mid.hidden.{i}": value for i, value in enumerate(seen)}
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="dlrmv2", made_by="test/golden/make/dlrmv2.py", seed=seed, torch=torch.__version__.split("+")[0])
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, logits {logits.std():.2f}")


if __name__ == "__main__":
    main()
