# SPDX-License-Identifier: Apache-2.0
include(fk_triton)
fk_triton_provider(fla fla-core-0.6.0 fla flash-linear-attention)
