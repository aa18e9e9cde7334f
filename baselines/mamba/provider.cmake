# SPDX-License-Identifier: Apache-2.0
include(fk_triton)
fk_triton_provider(mamba vllm-mamba-0.26.0 vllm vLLM)
