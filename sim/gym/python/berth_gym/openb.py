"""The packing protocol of `berth simulate openb`, one decision at a time."""

import json
import os
import shutil
import subprocess

import gymnasium
import numpy as np
from gymnasium import spaces


class BerthError(RuntimeError):
    """`berth simulate env` has ended, or refused what it was asked."""


def find_berth(path=None):
    """The program: the given path, else $BERTH_BIN, else the one in PATH."""
    found = path or os.environ.get("BERTH_BIN") or shutil.which("berth")
    if not found:
        raise BerthError("no `berth`: give berth=PATH, set BERTH_BIN, or put it into PATH")
    return found


class OpenbEnv(gymnasium.Env):
    """Pods arrive one by one; the action is the node that each goes to.

    Observation: `pod`, one row, and `nodes`, one row per node, with the columns `pod_features` and
    `node_features` (cores, GiB, GPUs). `info["action_mask"]` says where the pod fits; any other
    action drops it. The reward is minus the growth of what is lost, in percent of all GPUs: free
    GPUs of no use to a typical pod (the fragmentation measure of FGD), and what dropped pods asked
    for. `info["berth_action"]` is what Berth itself would do. `reset(seed=S)` is the episode of
    `berth simulate openb --seeds S`; the last `info` has its figure, `unallocated_percent` (None
    where that has none).
    """

    metadata = {"render_modes": []}

    def __init__(self, traces, list="default", policy_file=None, berth=None):
        command = [find_berth(berth), "simulate", "env", "--traces", str(traces), "--list", list]
        if policy_file is not None:
            command += ["--policy-file", str(policy_file)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        hello = self._read()
        self.pod_features = tuple(hello["pod_features"])
        self.node_features = tuple(hello["node_features"])
        self.models = tuple(hello["models"])
        self._nodes = np.zeros((hello["nodes"], len(self.node_features)), np.float32)
        self._mask = np.zeros(hello["nodes"], np.int8)
        # A feature that this list has not got is in 0..1 all the same.
        pod_most = np.maximum(np.array(hello["pod_most"], np.float32), 1)
        node_most = np.maximum(np.array(hello["node_most"], np.float32), 1)
        self.action_space = spaces.Discrete(hello["nodes"])
        self.observation_space = spaces.Dict(
            {
                "pod": spaces.Box(np.zeros_like(pod_most), pod_most),
                "nodes": spaces.Box(
                    np.zeros_like(self._nodes), np.broadcast_to(node_most, self._nodes.shape)
                ),
            }
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**32)) if seed is None else seed
        answer = self._ask({"reset": episode})
        self._nodes[:] = answer["nodes"]
        return self._see(answer)

    def step(self, action):
        answer = self._ask({"step": int(action)})
        for node, row in answer["changed"].items():
            self._nodes[int(node)] = row
        observation, info = self._see(answer)
        return observation, answer["reward"], answer["terminated"], False, info

    def action_masks(self):
        """The mask as sb3-contrib's MaskablePPO asks for it."""
        return self._mask.astype(bool)

    def close(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait()
        self._process.stdout.close()

    def _see(self, answer):
        self._mask = np.frombuffer(answer["mask"].encode(), np.int8) - np.int8(ord("0"))
        observation = {"pod": np.array(answer["pod"], np.float32), "nodes": self._nodes.copy()}
        return observation, {**answer["info"], "action_mask": self._mask.copy()}

    def _ask(self, command):
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise BerthError("`berth simulate env` has ended") from error
        return self._read()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise BerthError(f"`berth simulate env` ended with code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise BerthError(answer["error"])
        return answer
