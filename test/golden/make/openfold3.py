#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openfold3.py OUT [NAME...]: reference cases of OpenFold3 from the library's own modules (core/model of openfold3), in float64, in the names of its checkpoints.

Noise, rotations and translations are given, where the library draws them. There are no templates. mid.token_hidden.i and mid.pair_hidden.i are the trunk after cycle i,
mid.hidden.i the tokens behind block i of the diffusion in all steps. Needs torch, ml_collections, safetensors and the files of openfold3; packages which read and write
structures may be absent.
"""
import argparse, copy, importlib.abc, importlib.machinery, importlib.util, json, math, pathlib, sys, types, unittest.mock, zlib

import torch
from safetensors.torch import save_file


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages which the modules import and do not call."""

    def find_spec(self, name, path=None, target=None):
        root = name.split(".")[0]
        if root in ("biotite", "gemmi", "cuequivariance_torch") and importlib.machinery.PathFinder.find_spec(root) is None:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


def library():
    """The library's modules, without the package's own __init__, which needs more packages."""
    sys.meta_path.append(Absent())
    sys.path.remove(str(pathlib.Path(__file__).parent.resolve()))  # this file has the package's name
    spec = importlib.util.find_spec("openfold3")
    package = types.ModuleType("openfold3")
    package.__path__, package.__spec__ = list(spec.submodule_search_locations), spec
    sys.modules["openfold3"] = package


library()
from ml_collections import ConfigDict
from openfold3.core.model.feature_embedders.input_embedders import InputEmbedderAllAtom, MSAModuleEmbedder
from openfold3.core.model.heads.prediction_heads import PairformerEmbedding, PerResidueLDDTAllAtom
from openfold3.core.model.latent.msa_module import MSAModuleStack
from openfold3.core.model.latent.pairformer import PairFormerStack
from openfold3.core.model.primitives import LayerNorm, Linear
from openfold3.core.model.structure.diffusion_module import DiffusionModule, create_noise_schedule
from openfold3.core.utils.rigid_utils import quat_to_rot
from openfold3.projects.of3_all_atom.config import linear_init_config as init


def atoms(token, **more):
    return dict(c_atom_ref=dict(element=9, name_chars=8), c_atom=16, c_atom_pair=6, c_token=token, c_hidden=8, no_heads=2, no_blocks=2, n_transition=2, n_query=4, n_key=12) | more


PAIRS = dict(c_hidden_mul=12, c_hidden_pair_att=6, no_heads_pair=2, no_blocks=2, transition_type="swiglu", transition_n=2, fuse_projection_weights=False)
BOTH = PAIRS | dict(c_hidden_pair_bias=7, no_heads_pair_bias=3)


def architecture(token=20, s=24, z=16, m=8, wide=26, near=3, copies=1, **c):
    encoder = c.pop("encoder", {})
    decoder = {key: value for key, value in atoms(wide, **encoder).items() if key != "c_atom_ref"}
    return dict(shared=dict(c_s_input=token + 65, c_s=s, c_z=z, num_recycles=c.get("recycles", 2), diffusion=dict(no_full_rollout_samples=1, no_full_rollout_steps=c["steps"])),
                input_embedder=dict(max_relative_idx=near, max_relative_chain=copies, atom_attn_enc=atoms(token, **c.get("input_atoms", {}))),
                msa=dict(msa_module_embedder=dict(c_m_feats=34, c_m=m),
                         msa_module=PAIRS | dict(c_hidden_msa_att=5, c_hidden_opm=4, no_heads_msa=2, opm_first=True) | c.get("msa", {})),
                pairformer=BOTH | c.get("trunk", {}),
                diffusion_module=dict(diffusion_module=dict(c_token=wide), diffusion_conditioning=dict(c_fourier_emb=18), atom_attn_enc=atoms(wide, **encoder),
                                      diffusion_transformer=dict(c_hidden=6, no_heads=3, no_blocks=2, n_transition=2) | c.get("tokens", {}), atom_attn_dec=decoder),
                noise_schedule=dict(sigma_data=16, s_max=160.0, s_min=4e-4, p=7),
                sample_diffusion=dict(gamma_0=0.8, gamma_min=1.0, noise_scale=1.003, step_scale=1.5),
                heads=dict(max_atoms_per_token=4, pairformer_embedding=dict(pairformer=BOTH | dict(no_blocks=1), min_bin=3.25, max_bin=50.75, no_bin=c.get("bins", 39)), lddt=dict(c_out=11)))


BASE = dict(architectures=["OpenFold3"], model_type="openfold3")
CASES = {
    # Atoms which do not fill their last window; several chains, entities and copies.
    "openfold3": BASE | dict(num_tokens=9, num_atoms=23, num_sequences=4) | architecture(steps=3),
    # More heads and blocks, one cycle, other windows in both encoders, an even number of atoms, wider transitions.
    "openfold3_wide": BASE | dict(num_tokens=13, num_atoms=36, num_sequences=7)
    | architecture(steps=2, recycles=1, token=12, s=32, z=8, m=16, wide=40, near=5, copies=2, bins=15, input_atoms=dict(n_query=6, n_key=8, no_blocks=1, c_atom=12),
                   encoder=dict(no_heads=3, c_hidden=5, c_atom=20, c_atom_pair=4, n_transition=3, n_query=12, n_key=20), msa=dict(no_blocks=1, no_heads_pair=3),
                   trunk=dict(no_blocks=3, no_heads_pair=3, c_hidden_pair_att=4, transition_n=3), tokens=dict(no_heads=4, no_blocks=3, c_hidden=5)),
}


class Model(torch.nn.Module):
    """The parts of OpenFold3 which a structure and its pLDDT need, by the names of its own model."""

    def __init__(self, c):
        super().__init__()
        s, infinite = c["shared"], dict(inf=1e9)
        widths, keys = dict(c_s=s["c_s"], c_z=s["c_z"]), dict(c_s_input=s["c_s_input"])
        near = {key: c["input_embedder"][key] for key in ("max_relative_idx", "max_relative_chain")}
        enc = lambda sizes: ConfigDict(sizes | widths | infinite | dict(linear_init_params=init.atom_att_enc_init))
        pairs = lambda sizes: dict(sizes, **infinite, pair_dropout=0.0, blocks_per_ckpt=None)
        self.input_embedder = InputEmbedderAllAtom(**keys, **widths, **near, atom_attn_enc=enc(c["input_embedder"]["atom_attn_enc"]), linear_init_params=init.input_emb_init)
        self.layer_norm_z, self.linear_z = LayerNorm(s["c_z"]), Linear(s["c_z"], s["c_z"], bias=False)
        self.layer_norm_s, self.linear_s = LayerNorm(s["c_s"]), Linear(s["c_s"], s["c_s"], bias=False)
        self.msa_module_embedder = MSAModuleEmbedder(**c["msa"]["msa_module_embedder"], **keys, subsample_main_msa=False, subsample_all_msa=False, min_subsampled_all_msa=1,
                                                     max_subsampled_all_msa=1, linear_init_params=init.msa_module_emb_init)
        self.msa_module = MSAModuleStack(**pairs(c["msa"]["msa_module"]), c_m=c["msa"]["msa_module_embedder"]["c_m"], c_z=s["c_z"], msa_dropout=0.0, eps=1e-8,
                                         linear_init_params=init.msa_module_init)
        self.pairformer_stack = PairFormerStack(**pairs(c["pairformer"]), **widths, linear_init_params=init.pairformer_init)
        d = copy.deepcopy(c["diffusion_module"])
        sigma = dict(sigma_data=c["noise_schedule"]["sigma_data"])
        d["diffusion_module"] |= dict(c_s=s["c_s"], **sigma, linear_init_params=init.diffusion_module_init)
        d["diffusion_conditioning"] |= keys | widths | near | sigma | dict(linear_init_params=init.diffusion_cond_init)
        d["atom_attn_enc"] |= widths | infinite | dict(linear_init_params=init.atom_att_enc_init)
        d["atom_attn_dec"] |= infinite | dict(linear_init_params=init.atom_att_dec_init)
        d["diffusion_transformer"] |= widths | infinite | dict(c_a=d["diffusion_module"]["c_token"], n_query=None, n_key=None, linear_init_params=init.diffusion_transformer_init)
        self.diffusion_module = DiffusionModule(ConfigDict(d))
        h = c["heads"]
        self.aux_heads = torch.nn.Module()
        bins = {key: h["pairformer_embedding"][key] for key in ("min_bin", "max_bin", "no_bin")}
        self.aux_heads.pairformer_embedding = PairformerEmbedding(pairformer=pairs(h["pairformer_embedding"]["pairformer"]) | widths | dict(linear_init_params=init.pairformer_init), **keys,
                                                                  c_z=s["c_z"], **bins, **infinite, linear_init_params=init.pairformer_head_init)
        self.aux_heads.plddt = PerResidueLDDTAllAtom(c_s=s["c_s"], c_out=h["lddt"]["c_out"], max_atoms_per_token=h["max_atoms_per_token"], linear_init_params=init.lddt_init)


@torch.no_grad()
def fill(model, seed):
    """Unit gain; norms and biases with weights; numbers that bfloat16 has."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if p.ndim == 1:
            value = 0.1 * noise + (name.endswith("weight"))
        else:
            value = noise / p.shape[1] ** 0.5
        p.copy_(value.bfloat16().double())
    for name, p in model.named_buffers():
        p.copy_(p.bfloat16())


@torch.no_grad()
def predict(c, model, batch, given):
    one = lambda x: torch.ones(x, dtype=torch.float64)
    seen, hooks = {}, []
    watch = lambda module, name: hooks.append(module.register_forward_hook(lambda _, __, value: seen.setdefault(name, []).append(value[0] if isinstance(value, tuple) else value)))
    s_input, s_first, z_first = model.input_embedder(batch=batch)
    tokens, mask, steps = c["num_tokens"], batch["token_mask"], c["shared"]["diffusion"]["no_full_rollout_steps"]
    pair_mask = mask[..., None] * mask[..., None, :]
    s, z = torch.zeros_like(s_first), torch.zeros_like(z_first)
    golden = {"mid.input_hidden.0": s_input}
    for cycle in range(c["shared"]["num_recycles"] + 1):
        z = z_first + model.linear_z(model.layer_norm_z(z))
        m, msa_mask = model.msa_module_embedder(batch=batch, s_input=s_input)
        z = model.msa_module(m, z, msa_mask=msa_mask, pair_mask=pair_mask)
        s = s_first + model.linear_s(model.layer_norm_s(s))
        s, z = model.pairformer_stack(s=s, z=z, single_mask=mask, pair_mask=pair_mask)
        golden |= {f"mid.token_hidden.{cycle}": s, f"mid.pair_hidden.{cycle}": z.flatten(1, 2)}
    for i, block in enumerate(model.diffusion_module.diffusion_transformer.blocks):
        watch(block, f"mid.hidden.{i}")
    schedule = create_noise_schedule(no_rollout_steps=steps, **c["noise_schedule"], dtype=torch.float64, device="cpu")
    sample, x, latents = c["sample_diffusion"], schedule[0] * given["noise"][:, 0], []
    for i in range(steps):
        q = given["rotations"][:, i]
        turn = quat_to_rot(q / q.norm(dim=-1, keepdim=True))
        x = (x - x.mean(1, keepdim=True)) @ turn.transpose(-1, -2) + given["translations"][:, i, None]
        t = schedule[i] * (1 + (sample["gamma_0"] if schedule[i + 1] > sample["gamma_min"] else 0))
        x = x + sample["noise_scale"] * torch.sqrt(t**2 - schedule[i] ** 2) * given["noise"][:, i + 1]
        clean = model.diffusion_module(batch=batch, xl_noisy=x, token_mask=mask, atom_mask=batch["atom_mask"], t=t[None], si_input=s_input, si_trunk=s, zij_trunk=z, use_conditioning=True)
        x = x + sample["step_scale"] * (schedule[i + 1] - t) * (x - clean) / t
        latents.append(x)
    near = x[:, batch["representative_atom_index"][0]]
    s_head, _ = model.aux_heads.pairformer_embedding(si_input=s_input, si=s, zij=z, x_pred=near, single_mask=mask, pair_mask=pair_mask)
    places = torch.arange(c["heads"]["max_atoms_per_token"]) < batch["num_atoms_per_token"][..., None]
    logits = model.aux_heads.plddt(s_head, places.flatten(1).double())
    for hook in hooks:
        hook.remove()
    golden |= {name: torch.cat([v.reshape(1, tokens, -1) for v in values], 1) for name, values in seen.items()}
    return golden | {"mid.latents": torch.cat(latents, 1), "out.atom_positions": x, "out.plddt_logits": logits}


def structure(c, seed):
    """The features of one structure as the library has them, and what is drawn in sampling."""
    g = torch.Generator().manual_seed(seed)
    tokens, count, sequences, most = c["num_tokens"], c["num_atoms"], c["num_sequences"], c["heads"]["max_atoms_per_token"]
    randn, randint = lambda *shape: torch.randn(1, *shape, generator=g), lambda below, *shape: torch.randint(0, below, (1, *shape), generator=g)
    each = torch.ones(tokens, dtype=torch.long)
    while each.sum() < count:
        i = int(torch.randint(0, tokens, (1,), generator=g))
        each[i] += each[i] < most
    first = each.cumsum(0) - each
    owner = torch.arange(tokens).repeat_interleave(each)
    features = c["input_embedder"]["atom_attn_enc"]["c_atom_ref"]
    one_hot = lambda index, classes: torch.nn.functional.one_hot(index, classes).float()
    batch = dict(ref_pos=2 * randn(count, 3), ref_charge=randint(5, count).float() - 2, ref_mask=one_hot(randint(4, count).clamp(max=1), 2)[..., 1], ref_element=one_hot(randint(features["element"], count), features["element"]),
                 ref_atom_name_chars=one_hot(randint(features["name_chars"] // 4, count, 4), features["name_chars"] // 4), ref_space_uid=owner[None] // 2,
                 restype=one_hot(randint(32, tokens), 32), profile=torch.softmax(randn(tokens, 32), -1), deletion_mean=randn(tokens).abs(), token_bonds=(randn(tokens, tokens) > 1).float(),
                 msa=one_hot(randint(32, sequences, tokens), 32), has_deletion=(randn(sequences, tokens) > 0.5).float(), deletion_value=randn(sequences, tokens).abs(),
                 atom_to_token_index=owner[None], residue_index=(torch.arange(tokens) // 2 * 2 % 7)[None], token_index=torch.arange(tokens)[None], asym_id=(torch.arange(tokens) // 4)[None],
                 entity_id=(torch.arange(tokens) // 4 // 2)[None], sym_id=(torch.arange(tokens) // 4)[None], representative_atom_index=first[None] + randint(2**20, tokens) % each,
                 num_atoms_per_token=each[None], start_atom_index=first[None], token_mask=torch.ones(1, tokens), atom_mask=torch.ones(1, count), msa_mask=torch.ones(1, sequences, tokens))
    steps = c["shared"]["diffusion"]["no_full_rollout_steps"]
    given = dict(noise=randn(steps + 1, count, 3), rotations=randn(steps, 4), translations=randn(steps, 3))
    place = torch.arange(count) - first[owner]
    inputs = {key: batch[key] for key in ("ref_pos", "ref_element", "restype", "profile", "token_bonds", "msa", "ref_space_uid", "atom_to_token_index", "residue_index", "token_index", "asym_id",
                                          "entity_id", "sym_id", "representative_atom_index")}
    inputs |= {key: batch[key][..., None] for key in ("ref_charge", "ref_mask", "deletion_mean", "has_deletion", "deletion_value")}
    inputs |= given | dict(ref_atom_name_chars=batch["ref_atom_name_chars"].flatten(2), plddt_index=(owner * most + place)[None])
    double = lambda values: {key: value.double() if value.is_floating_point() else value for key, value in values.items()}
    return inputs, double(batch), double(given)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        c, seed = CASES[name], zlib.crc32(name.encode())
        model = Model(c).double().eval()
        fill(model, seed)
        inputs, batch, given = structure(c, seed + 1)
        golden = {"in." + key: value.float() for key, value in inputs.items()}
        golden |= {key: value.float() for key, value in predict(c, model, batch, given).items()}
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file({key: (value.float() if key.startswith("diffusion_module.diffusion_conditioning.fourier_emb") else value.bfloat16()).contiguous() for key, value in model.state_dict().items()},
                  folder / "model.safetensors")
        save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        import importlib.metadata
        case = dict(arch="openfold3", made_by="test/golden/make/openfold3.py", seed=seed, torch=torch.__version__, openfold3=importlib.metadata.version("openfold3"))
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, positions {golden['out.atom_positions'].std():.3g}, logits {golden['out.plddt_logits'].std():.3g}")


if __name__ == "__main__":
    main()
