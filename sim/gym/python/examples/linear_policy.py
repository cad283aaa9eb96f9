#!/usr/bin/env python3
"""Trains a linear policy by random search, then plays it against Berth and against chance.

    BERTH_BIN=build/server/berth PYTHONPATH=python build/venv/bin/python \\
        sim/gym/python/examples/linear_policy.py shared/traces
"""

import argparse

import gymnasium
import numpy as np

import berth_gym  # registers the environment


def features(observation, most):
    """What a node would be after the pod came, one row each, about 0 to 1."""
    column = {name: i for i, name in enumerate(most)}
    nodes = observation["nodes"] / np.maximum(1.0, list(most.values()))
    _, _, gpus, share, _ = observation["pod"]
    left = observation["nodes"][:, column["gpu_free"]] - gpus * share
    return np.column_stack(
        [
            nodes,
            left / max(1.0, most["gpu_free"]),
            left == np.round(left),  # no GPU stays broken
            (nodes[:, column["gpus_total"]] > 0) & (gpus == 0),
        ]
    )


def play(env, seed, choose):
    observation, info = env.reset(seed=seed)
    total, terminated = 0.0, False
    while not terminated:
        observation, reward, terminated, _, info = env.step(choose(observation, info))
        total += reward
    return total, info["allocated_percent"]


def linear(weights, most):
    def choose(observation, info):
        score = features(observation, most) @ weights
        return int(np.argmax(np.where(info["action_mask"], score, -np.inf)))

    return choose


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces")
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--train-seed", type=int, default=1)
    parser.add_argument("--test-seeds", type=int, nargs="+", default=[42, 43, 44])
    options = parser.parse_args()
    env = gymnasium.make("berth/Openb-v0", traces=options.traces)
    most = dict(zip(env.unwrapped.node_features, env.observation_space["nodes"].high[0]))
    random = np.random.default_rng(0)
    best, best_return = None, -np.inf
    size = features(env.reset(seed=0)[0], most).shape[1]
    for attempt in range(options.tries):
        # From anywhere at first, then around the best.
        weights = random.normal(size=size)
        if attempt >= options.tries // 3:
            weights = best + 0.3 * weights
        total, _ = play(env, options.train_seed, linear(weights, most))
        if total > best_return:
            best, best_return = weights, total
            print(f"try {attempt}: return {total:.2f}", flush=True)
    policies = {
        "chance": lambda _, info: int(random.choice(np.flatnonzero(info["action_mask"]))),
        "linear": linear(best, most),
        "Berth": lambda _, info: info["berth_action"],
    }
    for name, choose in policies.items():
        results = np.array([play(env, seed, choose) for seed in options.test_seeds])
        total, allocated = results.mean(axis=0)
        print(f"{name:8} return {total:8.2f}  allocated in the end {allocated:6.2f} %")


if __name__ == "__main__":
    main()
