"""The Gymnasium package over the real program. Last line: `N passed, N failed`."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

import berth_gym

TRACES = pathlib.Path(__file__).parents[1] / "unit" / "sim" / "testdata"


def make(**options):
    return gymnasium.make("berth/Openb-v0", traces=TRACES, **options)


def lost(info):
    return info["fragment_percent"] + info["dropped_percent"]


def play(env, seed, choose):
    """One episode. Returns minus what is lost at its end, by the rewards, and its last info."""
    observation, info = env.reset(seed=seed)
    total, terminated = -lost(info), False
    while not terminated:
        observation, reward, terminated, truncated, info = env.step(choose(observation, info))
        assert not truncated
        total += reward
    return total, info


def berths(observation, info):
    return info["berth_action"]


class OpenbTest(unittest.TestCase):
    def setUp(self):
        self.env = make()
        self.addCleanup(self.env.close)

    def test_keeps_the_conventions_of_gymnasium(self):
        check_env(self.env.unwrapped)

    def test_berths_own_choices_give_the_figure_of_simulate_openb(self):
        seeds = [42, 43, 44, 45]
        command = [os.environ["BERTH_BIN"], "simulate", "openb", "--traces", str(TRACES)]
        command += ["--policy", "Berth", "--seeds", "42-45", "-o", "json"]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        self.assertEqual([row["seed"] for row in rows], seeds)
        for seed, row in zip(seeds, rows):
            _, info = play(self.env, seed, berths)
            figure = info["unallocated_percent"]
            figure = figure if figure is None else round(figure, 6)  # as openb prints it
            self.assertEqual(figure, row["unallocated_percent"])
        figures = [row["unallocated_percent"] is not None for row in rows]
        self.assertEqual(figures, [True, True, False, True])  # with 44 no arrival rounds to 100 %

    def test_the_same_seed_is_the_same_episode(self):
        def noisy(seed):
            random = np.random.default_rng(7)
            return play(
                self.env, seed, lambda _, info: random.choice(np.flatnonzero(info["action_mask"]))
            )

        total, info = noisy(5)
        again, info_again = noisy(5)
        self.assertEqual(total, again)
        self.assertEqual(info["allocated_percent"], info_again["allocated_percent"])
        self.assertNotEqual(total, noisy(6)[0])

    def test_the_rewards_add_up_to_what_is_lost(self):
        total, info = play(self.env, 3, berths)
        self.assertAlmostEqual(total, -lost(info))

    def test_a_masked_action_drops_the_pod(self):
        self.env.reset(seed=1)
        dropped = 0.0
        for _ in range(20):
            mask = self.env.unwrapped.action_masks()
            bad = np.flatnonzero(~mask)
            before = self.env.unwrapped._nodes.copy()
            action = bad[0] if bad.size else self.env.action_space.n
            observation, reward, _, _, info = self.env.unwrapped.step(action)
            np.testing.assert_array_equal(observation["nodes"], before)
            self.assertLessEqual(reward, 0.0)
            dropped -= reward
        self.assertAlmostEqual(dropped, info["dropped_percent"])
        self.assertEqual(info["allocated_percent"], 0.0)

    def test_an_observation_stays_what_it_was(self):
        first, info = self.env.reset(seed=1)
        kept = first["nodes"].copy()
        self.env.step(info["berth_action"])
        np.testing.assert_array_equal(first["nodes"], kept)

    def test_episodes_without_a_seed_differ_but_repeat(self):
        def pods():
            self.env.reset(seed=9)
            return [self.env.reset()[1]["pod"] for _ in range(5)]

        self.assertEqual(pods(), pods())
        self.assertGreater(len(set(pods())), 1)

    def test_what_cannot_be_is_an_error(self):
        env = self.env.unwrapped
        env.close()
        with self.assertRaises(berth_gym.BerthError):
            env.reset(seed=1)
        with self.assertRaises(berth_gym.BerthError):
            berth_gym.OpenbEnv(traces="/nonexistent")
        fresh = berth_gym.OpenbEnv(traces=TRACES)
        self.addCleanup(fresh.close)
        with self.assertRaisesRegex(berth_gym.BerthError, "reset first"):
            fresh.step(0)
        fresh.reset(seed=1)  # and goes on


def main():
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(OpenbTest)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
