#!/usr/bin/env python3
"""The table of docs/gpu-topology.md: how well pods fare by the weight of their own links.

    python3 bench/device_weights.py [ARRIVALS]

One machine; each pod that arrives finds room after as many random ones have left as it takes. The choice
and the loss are those of topology/machine.cc, whose constant kOwnLinks the table is about.
"""

import itertools
import random
import sys

MIX = {1: 40, 2: 30, 4: 25, 8: 5}  # GPUs of a pod, per cent
SOCKETS = [0, 0, 0, 0, 1, 1, 1, 1]
PAIRS = [0, 0, 1, 1, 2, 2, 3, 3]  # a PCIe switch for two
ALONE = list(range(8))
CUBE_MESH = [
    [0, 1, 1, 2, 2, 0, 0, 0],
    [1, 0, 2, 1, 0, 2, 0, 0],
    [1, 2, 0, 2, 0, 0, 1, 0],
    [2, 1, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 1, 1, 2],
    [0, 2, 0, 0, 1, 0, 2, 1],
    [0, 0, 1, 0, 1, 2, 0, 2],
    [0, 0, 0, 1, 2, 1, 2, 0],
]
MACHINES = {
    "DGX-1V": (CUBE_MESH, PAIRS),
    "DGX A100": ([[12] * 8] * 8, PAIRS),
    "DGX H100": ([[18] * 8] * 8, ALONE),
}


def links_of_sets(links, rails):
    """By set of devices, as a mask: the scores of its pairs together."""

    def score(a, b):
        near = 50 if rails[a] == rails[b] else 30 if SOCKETS[a] == SOCKETS[b] else 10
        return 100 * links[a][b] + near

    devices = [[i for i in range(8) if mask >> i & 1] for mask in range(256)]
    return [sum(score(a, b) for a, b in itertools.combinations(d, 2)) for d in devices]


def mean_loss(total, own, rest, arrivals):
    """Of pods of 2 and 4: 0 is the best set of its size, 1 the worst. `own` 0, `rest` 0: lowest free."""
    by_size = {n: [m for m in range(256) if bin(m).count("1") == n] for n in MIX}
    bounds = {n: (max(total[m] for m in sets), min(total[m] for m in sets)) for n, sets in by_size.items()}
    chance = random.Random(1)
    sizes = chance.choices(list(MIX), list(MIX.values()), k=arrivals)
    free, pods, chosen, losses = 255, [], {}, []
    for size in sizes:
        while bin(free).count("1") < size:
            free |= pods.pop(chance.randrange(len(pods)))
        if (free, size) not in chosen:
            fitting = [m for m in by_size[size] if m & ~free == 0]
            chosen[free, size] = min(fitting, key=lambda m: (-own * total[m] - rest * total[free ^ m], m))
        mask = chosen[free, size]
        free ^= mask
        pods.append(mask)
        best, worst = bounds[size]
        if best != worst:
            losses.append((best - total[mask]) / (best - worst))
    return sum(losses) / len(losses)


def main():
    arrivals = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    columns = {"lowest free indices": (0, 0), "1": (1, 1), "2": (2, 1), "4": (4, 1), "8": (8, 1), "only its own links": (1, 0)}
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name, (links, rails) in MACHINES.items():
        total = links_of_sets(links, rails)
        cells = [f"{mean_loss(total, own, rest, arrivals):.2f}" for own, rest in columns.values()]
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
