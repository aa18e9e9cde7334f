# SPDX-License-Identifier: Apache-2.0
"""The ops of a plugin in torch: import this package, then call torch.ops.fk.<op>."""
from . import ops as ops_module
from .ops import ABOUT as about
from .ops import load

ops, forget = load()

__all__ = ["about", "forget", "ops"]
