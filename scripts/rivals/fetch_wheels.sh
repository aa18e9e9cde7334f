#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch_wheels.sh OUT [PIECE_MB]: vLLM 0.26.0 for a Hopper GPU without network, as OUT/vllm.tar.xz, or in pieces
# OUT/vllm.0, OUT/vllm.1, ... of PIECE_MB megabytes. That machine needs Python 3.12, torch 2.11.0, transformers,
# and the packages of HAVE below. There:
#
#   mkdir site && cat vllm.* | xz -dc | tar -C site -xf - && export PYTHONPATH=$PWD/site
#
# Left out of vLLM's wheel: FlashAttention 2, its server in Rust, kernels of Blackwell and of DeepGEMM, and all
# kernels that shrink_wheel.py names. Left out of its needs: HAVE, FlashInfer, TileLang, CuTe DSL, codecs and
# packages of the server. xgrammar is a placeholder: vLLM imports it, and only structured outputs call it.
# FA3=hdim128_bf16 names the kernels of attention: Llama 3.1 8B and Mixtral 8x7B use these, gpt-oss hdim64_bf16.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '3,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
out="$1" piece="${2:-0}"
HAVE=(aiohttp certifi charset-normalizer click cloudpickle einops filelock fsspec grpcio hf-xet huggingface-hub idna jinja2
  markupsafe mpmath networkx numba numpy opencv-python-headless packaging pillow prometheus-client protobuf psutil pyyaml
  regex requests safetensors sentencepiece setuptools sympy tiktoken tokenizers torch torchvision tqdm transformers triton
  urllib3 uvloop)
NEEDS=(cachetools blake3 'fastapi<0.137.0,>=0.133.0' 'starlette>=1.0.1' 'openai>=2.0.0' 'pydantic>=2.12.0' 'llguidance<1.8.0,>=1.7.0'
  partial-json-parser 'jsonschema>=4.23.0' 'pyzmq>=25.0.0' msgspec 'mistral_common>=1.11.5' depyf==0.20.0 python-json-logger pybase64
  cbor2 ijson setproctitle 'openai-harmony>=0.0.3' 'model-hosting-container-standards<1.0.0,>=0.1.14' mcp 'opentelemetry-sdk>=1.27.0'
  'opentelemetry-api>=1.27.0' 'opentelemetry-exporter-otlp>=1.27.0' 'opentelemetry-semantic-conventions-ai>=0.4.1' pycountry
  compressed-tensors==0.17.0 email-validator pydantic-extra-types prometheus-fastapi-instrumentator)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/site"
# A requirement whose marker never holds leaves a package out, with all of its own needs.
printf '%s; python_version < "3"\n' "${HAVE[@]}" > "$work/have"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check uv
install=("$work/venv/bin/uv" pip install -q --target "$work/site" --python-version 3.12 --python-platform x86_64-manylinux_2_39 --only-binary :all:)
echo "fetching vLLM 0.26.0 (304 MB) and its needs" >&2
"${install[@]}" --no-deps vllm==0.26.0
"${install[@]}" --override "$work/have" "${NEEDS[@]}"
cd "$work/site"
rm -rf vllm/vllm_flash_attn/_vllm_fa2_C* vllm/vllm-rs vllm/_rust_tool* vllm/third_party/{deep_gemm,fmha_sm100,tml_fa4} \
  vllm/_qutlass_C* vllm/_flashmla_C* pycountry/locales mistral_common/data
python3 "$here/shrink_wheel.py" . --fa3 "${FA3:-hdim128_bf16}" >&2
mkdir xgrammar
cat > xgrammar/__init__.py <<'PLACEHOLDER'
"""A placeholder: names for vLLM's imports, without their functions."""
import sys, types


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


for part in ("openai_tool_call_schema", "structural_tag"):
    made = types.ModuleType(f"xgrammar.{part}")
    made.__getattr__ = __getattr__
    sys.modules[made.__name__] = made
PLACEHOLDER
cd - > /dev/null
rm -f "$out"/vllm.*
tar -C "$work/site" -cf - . | xz -T0 -6 > "$out/vllm.tar.xz"
if [[ "$piece" != 0 ]]; then
  split -b "${piece}MB" -d -a 2 "$out/vllm.tar.xz" "$out/vllm."
  rm "$out/vllm.tar.xz"
fi
ls -l "$out"/vllm.*
