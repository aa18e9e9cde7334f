#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lightgcn.py OUT [NAME...]: reference cases of LightGCN in torch, float64, from the paper (arXiv 2002.02126), in torch_geometric's names.

The graph lies beside the embeddings: adjacency.{indptr,indices,values}, the entries of D^-1/2 A D^-1/2 by rows. Here it is a dense matrix, and its
powers are products with it. Nodes after each product belong to no request, so the cases have other numbers of products. `--against DIR` compares embeddings and scores
with a case of torch_geometric (config.json, model.safetensors, and golden.safetensors with in.edge_index). Needs torch and safetensors.
"""
import argparse, json, pathlib, zlib

import torch
from safetensors.torch import load_file, save_file

BASE = dict(architectures=["LightGCN"], model_type="lightgcn", num_users=28, num_items=44, num_interactions=190, embedding_dim=16, num_layers=3)
CASES = {
    "lightgcn": (BASE, 8),
    # Few products, an odd width, nodes without an interaction.
    "lightgcn_wide": (BASE | dict(num_users=40, num_items=25, num_interactions=61, embedding_dim=27, num_layers=2), 13),
}


def normalised(edges, nodes):
    """The dense D^-1/2 A D^-1/2 of directed edges [2, E]; the degree counts edges into a node."""
    a = torch.zeros(nodes, nodes, dtype=torch.float64)
    a.index_put_((edges[1], edges[0]), torch.ones(edges.shape[1], dtype=torch.float64), accumulate=True)
    scale = a.sum(1).clamp(min=1) ** -0.5
    return scale[:, None] * a * scale[None]


def spread(a, embedding, layers):
    """The embeddings after each product."""
    seen = [embedding]
    for _ in range(layers):
        seen.append(a @ seen[-1])
    return seen


def against(folder):
    config, golden = json.loads((folder / "config.json").read_text()), load_file(folder / "golden.safetensors")
    edges = golden["in.edge_index"].long()
    embedding = load_file(folder / "model.safetensors")["embedding.weight"].double()
    mean = torch.stack(spread(normalised(edges, config["num_nodes"]), embedding, config["num_layers"])).mean(0)
    for name, value in {"embedding": mean, "scores": (mean[edges[0]] * mean[edges[1]]).sum(-1)}.items():
        wanted = golden["out." + name].double()
        print(f"{name}: largest difference {(value - wanted).abs().max() / wanted.std():.1e} of the spread")


def make(name, out):
    c, rows = CASES[name]
    seed = zlib.crc32(name.encode())
    g = torch.Generator().manual_seed(seed)
    users, items = c["num_users"], c["num_items"]
    chosen = torch.randperm(users * items, generator=g)[:c["num_interactions"]]
    pairs = torch.stack([chosen // items, users + chosen % items])
    a = normalised(torch.cat([pairs, pairs.flip(0)], 1), users + items).float().double()
    embedding = torch.randn(users + items, c["embedding_dim"], generator=g).bfloat16()
    sparse = a.to_sparse_csr()
    weights = {"embedding.weight": embedding, "adjacency.indptr": sparse.crow_indices().int(), "adjacency.indices": sparse.col_indices().int(),
               "adjacency.values": sparse.values().float()}
    seen = spread(a, embedding.double(), c["num_layers"])
    mean = torch.stack(seen).mean(0)
    user = torch.randint(0, users, (rows, 1), generator=g)
    golden = {"in.user": user, "out.scores": mean[user[:, 0]] @ mean[users:].T}
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
    save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    case = dict(arch="lightgcn", made_by="test/golden/make/lightgcn.py", seed=seed, torch=torch.__version__.split("+")[0])
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, scores {golden['out.scores'].std():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    parser.add_argument("--against", action="store_true", help="OUT is a case of torch_geometric")
    arguments = parser.parse_args()
    if arguments.against:
        return against(arguments.out)
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
