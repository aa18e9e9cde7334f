# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


class Model(nn.Module):
    """A convolution with batch statistics, whose state has a variance and a counter."""

    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x, scale):
        return torch.relu(self.norm(self.conv(x))) * scale


def get_inputs():
    return [torch.rand(4, 3, 12, 10), 0.5]


def get_init_inputs():
    return [3, 8]
