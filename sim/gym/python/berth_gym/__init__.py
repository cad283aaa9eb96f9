"""Gymnasium environments over Berth's simulator. See docs/simulator.md, "An environment to train in".

    import gymnasium, berth_gym
    env = gymnasium.make("berth/Openb-v0", traces="shared/traces")
"""

import gymnasium

from berth_gym.openb import BerthError, OpenbEnv

__all__ = ["BerthError", "OpenbEnv"]

gymnasium.register(id="berth/Openb-v0", entry_point="berth_gym.openb:OpenbEnv")
