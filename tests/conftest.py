"""Settings for every test: one torch thread a worker, and Hypothesis profiles without a clock in them."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: two workers with two threads each fight for two cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from hypothesis import settings

# No deadline anywhere: how long an example takes says more about the machine than about us.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
