"""One thread for every test: results then do not depend on the machine, and parallel tests do not fight for cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import torch

torch.set_num_threads(1)
