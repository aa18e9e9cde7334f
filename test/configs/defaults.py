#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""defaults.py [--write]: compares `defaults` of registry/models/<domain>/<arch>.yaml with those of the installed transformers.

They are what the library's configuration class has for a key that a config.json leaves out. Models in C++ have all of them; --write
writes these from the installed version. Keys that only other versions know are named, and are no error.
Needs torch and transformers (`mutate.py --venv FOLDER` makes a place with both).
"""
import argparse, dataclasses, json, math, pathlib, re, sys

import transformers, yaml

HOME = pathlib.Path(__file__).resolve().parents[2]
MODELS = HOME / "registry" / "models"
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
    """How many values in descriptions are not the library's. Null there follows from other keys."""
    wrong = 0
    for file in sorted(MODELS.glob("*/*.yaml")):
        info = yaml.safe_load(file.read_text())
        kind = next((getattr(transformers, name) for name in info["architectures"] if hasattr(transformers, name)), None)
        if kind is None or "defaults" not in info or f"{info['domain']}/{info['arch']}" in CLASSES:
            continue
        here = defaults(kind.config_class.__name__.removesuffix("Config"))
        for key, value in info["defaults"].items():
            if here.get(key) is not None and here[key] != value:
                print(f"{file.name}: {key} is {value}, transformers has {here[key]}")
                wrong += 1
    return wrong


def flow(value):
    """A value in one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    plainly = isinstance(value, str) and re.fullmatch("[A-Za-z_][A-Za-z0-9_-]*", value) and not re.fullmatch("true|false|null|infinity|inf|nan", value, re.I)
    return value if plainly else json.dumps(value)


def block(values):
    """The key `defaults` in lines of at most 100 characters."""
    lines, words = ["defaults: {"], [f"{key}: {flow(value)}" for key, value in values.items()]
    for i, word in enumerate(words):
        piece = word + ("}" if i + 1 == len(words) else ", ")
        if len((lines[-1] + piece).rstrip()) > 100:
            lines.append("  ")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the values instead of comparing them")
    arguments = parser.parse_args()
    wrong = 0 if arguments.write else described()
    for model, name in CLASSES.items():
        file = MODELS / (model + ".yaml")
        here, text = defaults(name), file.read_text()
        if arguments.write:
            file.write_text(re.sub(r"^defaults: \{.*?\}\n(?=\S)", lambda _: block(here), text, flags=re.M | re.S))
            continue
        kept = yaml.safe_load(text)["defaults"]
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
