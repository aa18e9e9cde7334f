#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""defaults.py [--write]: compares baselines/models/<domain>/<arch>.json with the defaults of the installed transformers.

Each such file holds what the library's configuration class has for a key that a config.json leaves out. fk-host is built with
these files. --write makes them from the installed version. Keys that only other versions know are named, and are no error.
Needs torch and transformers (`mutate.py --venv FOLDER` makes a place with both).
"""
import argparse, dataclasses, json, math, pathlib, sys

import transformers

HOME = pathlib.Path(__file__).resolve().parents[2]
MODELS = HOME / "baselines" / "models"
CLASSES = {
    "audio/whisper": "Whisper",
    "llm/gemma4_text": "Gemma4Text",
    "llm/jamba": "Jamba",
    "llm/kimi_linear": "KimiLinear",
    "llm/llama_eagle3": "Llama",
    "llm/mamba": "Mamba",
    "llm/mamba2": "Mamba2",
    "llm/qwen3_next": "Qwen3Next",
    "vision/convnextv2": "ConvNextV2",
    "vision/dinov3": "DINOv3ViT",
    "vision/rtdetrv2": "RTDetrV2",
    "vision/siglip2": "Siglip2Vision",
    "vision/swinv2": "Swinv2",
    "vision/vjepa2": "VJEPA2",
}


def plain(value):
    """A default as JSON has it, and as transformers writes what JSON lacks."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and math.isinf(value):
        return {"__float__": "Infinity" if value > 0 else "-Infinity"}
    return value


def defaults(name):
    """What a class declares, not what it makes of it: null often means that a value follows from others."""
    kind = getattr(transformers, name + "Config")
    base = {f.name: f.default for f in dataclasses.fields(transformers.PreTrainedConfig)}
    out = {}
    for field in dataclasses.fields(kind):
        inherited = field.name in base and field.default == base[field.name]
        if not inherited and not field.name.startswith("_"):
            out[field.name] = plain(field.default)
    if "rope_parameters" in out:
        made = dict(kind().rope_parameters)
        if "rope_type" not in made:
            return out  # a rope for each kind of layer has a base of its own
        out["rope_theta"] = kind.default_theta
        made.pop("rope_theta")
        if made["rope_type"] != "default":  # gpt_oss makes them when it is made
            out["rope_parameters"] = made
    return out


def described():
    """How many values in descriptions (`defaults` of registry/models) are not the library's. Null there follows from other keys."""
    import yaml

    wrong = 0
    for file in sorted(HOME.glob("registry/models/*/*.yaml")):
        info = yaml.safe_load(file.read_text())
        kind = next((getattr(transformers, name) for name in info["architectures"] if hasattr(transformers, name)), None)
        if kind is None or "defaults" not in info:
            continue
        here = defaults(kind.config_class.__name__.removesuffix("Config"))
        for key, value in info["defaults"].items():
            if here.get(key) is not None and here[key] != value:
                print(f"{file.name}: {key} is {value}, transformers has {here[key]}")
                wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="make the files instead of comparing them")
    arguments = parser.parse_args()
    wrong = 0 if arguments.write else described()
    for model, name in CLASSES.items():
        file = MODELS / (model + ".json")
        here = defaults(name)
        if arguments.write:
            file.write_text(json.dumps(here, indent=2) + "\n")
            continue
        kept = json.loads(file.read_text())
        for key in sorted(kept.keys() | here.keys()):
            if key not in here or key not in kept:
                where = "the file" if key in kept else "transformers " + transformers.__version__
                print(f"{model}: `{key}` is known to {where} only")
                wrong += key not in kept
            elif kept[key] != here[key]:
                print(f"{model}: `{key}` is {kept[key]!r} in the file, {here[key]!r} in transformers {transformers.__version__}")
                wrong += 1
    print(f"{len(CLASSES)} models, {wrong} differences that count, transformers {transformers.__version__}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
