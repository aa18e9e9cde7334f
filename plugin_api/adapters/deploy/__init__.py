# SPDX-License-Identifier: Apache-2.0
"""The ops of a plugin in torch: import this package, then call torch.ops.fk.<op>."""
from .ops import ABOUT as about
from .ops import forget, ops

__all__ = ["about", "forget", "ops"]
