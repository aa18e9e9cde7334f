# SPDX-License-Identifier: Apache-2.0
"""Two graphs of torch.cuda in turns, for scripts that measure a provider beside torch. A sample is one replay after the last cache was
read over; sides take turns A B B A. The ratio (the first one's time over the second's) is a mean over these blocks without the largest and
smallest tenth, with its 99 % interval."""
import statistics

import torch

STUDENT = {3: 5.841, 4: 4.604, 5: 4.032, 6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250}  # 99 %, both sides, by degrees of freedom


def captured(calls):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def seconds(graph, flush, calls):
    flush.sum()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def interval(values):
    """Trimmed mean and half the width of Yuen's interval."""
    values, cut = sorted(values), len(values) // 10
    kept = values[cut:len(values) - cut]
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    spread = statistics.stdev(winsorized)
    factor = STUDENT.get(len(kept) - 1, 3.25 if len(kept) < 20 else 2.9)
    return statistics.mean(kept), factor * spread * len(values) ** 0.5 / len(kept)


def race(graphs, flush, calls, blocks):
    """Seconds of a call of both, the ratio, half of its interval, and what that says of the second: `slower` is below 1 and not
    within 1 % of it."""
    samples, ratios = ([], []), []
    for _ in range(blocks):
        block = [seconds(graphs[side], flush, calls) for side in (0, 1, 1, 0)]
        samples[0].extend((block[0], block[3])), samples[1].extend((block[1], block[2]))
        ratios.append((block[0] + block[3]) / (block[1] + block[2]))
    ratio, half = interval(ratios)
    verdict = "same" if max(abs(ratio - half - 1), abs(ratio + half - 1)) <= 0.01 else "slower" if ratio + half < 1 else "faster" if ratio - half > 1 else "cannot tell"
    return samples, ratio, half, verdict
