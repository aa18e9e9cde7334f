# SPDX-License-Identifier: Apache-2.0
"""Two graphs of torch.cuda in turns, for scripts that measure a provider beside torch. A sample is one replay after the last cache was
read over; sides take turns A B B A. The ratio (the first one's time over the second's) is a mean over these blocks without the largest and
smallest tenth, with its 99 % interval."""
import json
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


def run(cases, measure):
    """Prints a JSON line with measure(case, flush) for each case, and one with what they come to. The exit status: 1 where a case is
    slower than torch, or its error above 1.1 times torch's."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    flush = torch.ones(32 << 20, device="cuda")
    found = []
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}), flush=True)
    for case in cases:
        found.append(measure(case, flush))
        print(json.dumps(found[-1]), flush=True)
        torch.cuda.empty_cache()
    ratios = [row["ratio"] for row in found]
    bad = [row["case"] for row in found if row["verdict"] == "slower" or not row["error"] <= 1.1 * row["torch_error"]]
    print(json.dumps({"cases": len(found), "median_ratio": statistics.median(ratios), "least": min(ratios), "slower_or_wrong": bad}))
    return 1 if bad else 0
