#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py --host build/fk-host: changes, deletes and adds every key of every supported configuration and compares fk-host with transformers.

Each mutated configuration of a tiny model ends in one of these ways:
  refused    fk-host refuses the configuration with a sentence
  agrees     both compute, and all answers agree (`fk-host verify`: 1e-4 of their spread)
  large      a size is so large that only the refusal is tried
  alone      transformers refuses or computes no finite answer, fk-host computes: nothing to compare with
  DISAGREES  both compute and differ, fk-host crashes, or a misspelt key is accepted: the tool fails

Bases are the configurations of test/golden, and those of registry/configs in the sizes of the tiny profile. Models that
transformers does not have (LLaDA, EAGLE-3) are left out. `mutate.py --venv FOLDER` makes FOLDER with both pinned versions and
prints how to start each. The files requirements.txt and transformers-*.txt pin them.
"""
import argparse, copy, itertools, json, os, pathlib, random, subprocess, sys, tempfile, time, zlib

HERE = pathlib.Path(__file__).resolve().parent
HOME = HERE.parents[1]
ELSEWHERE = {"architectures", "model_type", "quantization_config", "transformers_version", "dtype", "torch_dtype"}  # keys of other tests
MOST_PARAMETERS = 3_000_000
WORDS = ["gelu", "relu", "silu", "gelu_new", "default", "linear", "yarn", "llama3", "dynamic", "sliding_attention", "nonsense"]
ROPES = [  # beside what a file has
    ("rope_scaling", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}), ("rope_scaling", {"type": "linear", "factor": 2.0}), ("rope_scaling", {}),
    ("rope_scaling", {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}), ("rope_theta", 5000.0), ("partial_rotary_factor", 0.5),
    ("rope_parameters", {"rope_type": "yarn", "factor": 4.0}), ("rope_parameters", {"rope_theta": 3000.0}), ("rope_parameters", {}), ("rope_parameters", None)]


def make_venv(folder):
    """With the newer version; the older one lies in a folder of its own, for PYTHONPATH."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--requirement"]
    subprocess.run([*pip, HERE / "requirements.txt"], check=True)
    older = folder / "older"
    subprocess.run([*pip, HERE / "transformers-5.17.txt", "--target", older], check=True)
    for before in ("", f"PYTHONPATH={older} "):
        print(f"{before}{folder}/bin/python test/configs/mutate.py --host build/fk-host")


# ---- bases ----


def merged(config, changes):
    """A configuration with the changes of a profile: objects one by one, null removes."""
    out = dict(config)
    for key, value in changes.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = value
    return out


def models():
    """By class of transformers: the tiny profile of a model, and the values of keys which a file leaves out."""
    import transformers, yaml

    found = {}
    for file in HOME.glob("registry/models/*/*.yaml"):
        info = yaml.safe_load(file.read_text())
        found |= {name: (info["tiny"], info.get("defaults", {})) for name in info["architectures"] if hasattr(transformers, name)}
    return found


def bases(known):
    for file in sorted([*HOME.glob("test/golden/*/config.json"), *HOME.glob("registry/configs/*.json")]):
        config = json.loads(file.read_text())
        kind = config["architectures"][0].replace("HF_ColBERT", "BertModel")
        if kind not in known:
            continue
        golden = file.name == "config.json"
        config = config if golden else merged(config, known[kind][0])
        config |= {"pad_token_id": 0} if (config.get("pad_token_id") or 0) >= config.get("vocab_size", 1 << 30) else {}
        own = {"pooling", "normalize", "quantization_config"} | ({"dim"} if kind == "BertModel" else set())  # not keys of transformers, or of other tests
        config = {key: value for key, value in config.items() if key not in own}
        config["architectures"] = [kind]
        yield (file.parent.name if golden else file.stem), kind, config


# ---- mutations ----


def other_values(key, value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        found = [value + 1, value * 2, value / 2, 0, -1] if isinstance(value, int) else [value * 2, value / 2, 0.0, -1.0, value + 1]
        return [int(v) if isinstance(value, int) and v == int(v) else v for v in found]
    if isinstance(value, str):
        return [word for word in WORDS if word != value]
    if isinstance(value, list):
        return [value[:-1], value[::-1], value + value[:1], []]
    if isinstance(value, dict):
        return [{}]
    return [1, 2, 0.5, True, False, "nonsense", [1], {}]


class Renamed: ...


DELETED = object()


def changed(config, path, value):
    out = at = copy.deepcopy(config)
    for key in path[:-1]:
        at = at[key]
    if value is DELETED:
        del at[path[-1]]
    elif isinstance(value, Renamed):
        at[path[-1] + "x"] = at.pop(path[-1])
    else:
        at[path[-1]] = value
    return out


def mutations(config, defaults):
    """(what, configuration, whether it must be refused)"""

    def of(at, path):
        for key in list(at):
            here = (*path, key)
            name = ".".join(here)
            if key in ELSEWHERE or key == "id2label" and path:
                continue
            yield f"{name} deleted", changed(config, here, DELETED), False
            yield f"{name} misspelt", changed(config, here, Renamed()), True
            for value in [None, *other_values(key, at[key])]:
                if value != at[key] or type(value) is not type(at[key]):
                    yield f"{name} = {json.dumps(value)}", changed(config, here, value), False
            if isinstance(at[key], dict) and "__float__" not in at[key] and key not in ("id2label", "label2id"):
                yield from of(at[key], here)

    yield "as it is", config, False
    yield from of(config, ())
    for key, value in defaults.items():
        if key not in config:
            for other in [value, *other_values(key, value)]:
                yield f"{key} = {json.dumps(other)} added", dict(copy.deepcopy(config), **{key: other}), False
    if "rope_theta" in config or "rope_parameters" in config:
        for (a, x), (b, y) in itertools.combinations(ROPES, 2):
            if a != b:
                yield f"{a} = {json.dumps(x)} and {b} = {json.dumps(y)}", dict(copy.deepcopy(config), **{a: x, b: y}), False


# ---- what transformers computes ----


class Large(Exception): ...


def model_of(kind, config):
    import torch, transformers

    cls = getattr(transformers, kind)
    made = cls.config_class.from_dict(json.loads(json.dumps(config), object_hook=lambda o: float(o["__float__"]) if "__float__" in o else o))
    made._attn_implementation = "eager"
    with torch.device("meta"):
        size = sum(p.numel() for p in cls(made).parameters())
    if size > MOST_PARAMETERS:
        raise Large()
    torch.manual_seed(0)
    model = cls(made).eval().float()
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if name in dict(model.named_parameters()) or name.endswith("correction_bias"):
            fill(name, p)
    return model


def fill(name, p):
    """Unit gain, from the name alone: a tensor of the same shape is the same in every configuration."""
    import torch

    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
    if p.dim() <= 1:
        p.copy_(1 + 0.2 * noise if "norm" in name.lower() and name.endswith("weight") else p + 0.1 * noise)
    elif "embed" in name:
        p.copy_(noise)
    else:
        p.copy_(1.5 * noise / (max(p.shape[-2:]) if p.dim() == 3 else max(1, p[0].numel())) ** 0.5)


def inputs_of(kind, model):
    import torch

    generator = torch.Generator().manual_seed(1)
    config = model.config
    rand = lambda *shape: torch.randn(shape, generator=generator)
    if kind.startswith("ConvNext"):
        side = config.image_size
        return {"pixel_values": rand(2, config.num_channels, side, side)}
    ids = torch.randint(3, min(config.vocab_size, 128), (2, 24), generator=generator)
    if kind.startswith("Whisper"):
        return {"input_features": rand(2, config.num_mel_bins, 2 * config.max_source_positions), "decoder_input_ids": ids[:, :12]}
    if kind.endswith(("Model", "Encoder")):
        mask = torch.ones_like(ids)
        mask[1, 17:] = 0
        ids[1, 17:] = config.pad_token_id if config.pad_token_id is not None else 0
        return {"input_ids": ids, "attention_mask": mask}
    return {"input_ids": ids}


def write_case(folder, kind, config):
    """The case as `fk-host verify` reads it. Throws what transformers throws, or Large."""
    import torch
    from safetensors.torch import save_file

    with torch.no_grad():
        model = model_of(kind, config)
        given = inputs_of(kind, model)
        more = {} if kind.startswith("ConvNext") or kind.endswith(("Model", "Encoder")) else {"use_cache": False}
        seen = model(**given, **more)
        name = "logits" if hasattr(seen, "logits") else "last_hidden_state"
        out = getattr(seen, name).float()
        if not torch.isfinite(out[given["attention_mask"] == 1] if "attention_mask" in given else out).all():
            raise ValueError("not finite")
        model.save_pretrained(folder, max_shard_size="1GB")
    tensors = {f"in.{key}": t for key, t in given.items()} | {f"out.{name}": out}
    save_file({key: t.contiguous().clone() for key, t in tensors.items()}, folder / "golden.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


# ---- both ----


def verify(host, folder):
    done = subprocess.run([host, "verify", folder], capture_output=True, text=True, timeout=120, env=dict(os.environ, OMP_NUM_THREADS="1"))
    return done.returncode, done.stdout + done.stderr


def refusal_of(code, text, folder):
    """The sentence with which fk-host refuses a configuration, or none."""
    said = [line for line in text.splitlines() if str(folder / "config.json") in line or "outside the contract's range" in line]
    return said[0] if code != 0 and said else None


def judge(host, kind, config, must_refuse, base, folder):
    """(how it ended, what was said)"""
    (base / "config.json").write_text(json.dumps(config))
    code, text = verify(host, base)
    if sentence := refusal_of(code, text, base):
        return "refused", sentence
    if code < 0 or code > 100:
        return "DISAGREES", f"fk-host ends with {code}: {text[-300:]}"
    if must_refuse:
        return "DISAGREES", "accepted"
    try:
        write_case(folder, kind, config)
    except Large:
        return "large", ""
    except Exception as error:  # whatever the library throws at a configuration
        return "alone", f"{type(error).__name__}: {str(error)[:150]}"
    code, text = verify(host, folder)
    if code == 0:
        return "agrees", ""
    return ("refused", text) if refusal_of(code, text, folder) else ("DISAGREES", text[-700:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--host", type=pathlib.Path, default=HOME / "build" / "fk-host")
    parser.add_argument("--venv", type=pathlib.Path, help="make a virtual environment and end")
    parser.add_argument("--only", nargs="*", default=[""], help="bases whose names begin with one of these")
    parser.add_argument("--most", type=int, default=0, help="mutations to draw of each base; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--verbose", action="store_true", help="print every mutation")
    arguments = parser.parse_args()
    if arguments.venv:
        return make_venv(arguments.venv)
    import torch, transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    counts, began = {}, time.monotonic()
    for name, kind, config in bases(known := models()):
        if not name.startswith(tuple(arguments.only)):
            continue
        cases = list(mutations(config, known[kind][1]))
        if 0 < arguments.most < len(cases):
            cases = cases[:1] + random.Random(arguments.seed).sample(cases[1:], arguments.most - 1)
        with tempfile.TemporaryDirectory() as root:
            base, folder = pathlib.Path(root, "base"), pathlib.Path(root, "case")
            write_case(base, kind, config)
            for what, mutated, must_refuse in cases:
                end, said = judge(arguments.host, kind, mutated, must_refuse, base, folder)
                counts[end] = counts.get(end, 0) + 1
                if arguments.verbose or end == "DISAGREES" or what == "as it is" and end != "agrees":
                    print(f"{end:10} {name}: {what}  {said}", flush=True)
        print(f"{name}: {len(cases)} mutations", flush=True)
    total = ", ".join(f"{n} {end}" for end, n in sorted(counts.items())) + f" in {time.monotonic() - began:.0f} s"
    print(f"transformers {transformers.__version__}: {sum(counts.values())} mutations: {total}")
    return counts.get("DISAGREES", 0) > 0


if __name__ == "__main__":
    sys.exit(main())
