"""One batch over two processes: the joint loss is exact, so two processes take the steps of one.

Run: python examples/two_processes.py        (starts `torchrun` itself)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

# %% What every process runs; alone it is an ordinary program
WORKER = """
import os, torch
from nearer.geometry import MLP
from nearer.losses import RAWLoss
from nearer.mining import VTHM
from nearer.training import ClassSampler, EncoderStep, TensorBatches, process_group, train

torch.manual_seed(0)
y = torch.arange(20).repeat_interleave(12)
x = torch.randn(20, 32)[y] + torch.randn(240, 32)
with process_group():
    encoder = MLP(32, 8, hidden=(64,))
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    step = EncoderStep(encoder, RAWLoss(miner=VTHM()), adam, TensorBatches(x, y))
    sampler = ClassSampler(y, n_classes=20, per_class=4, batches=10, seed=0)
    history = train(step, sampler, epochs=3)
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        number = os.environ.get("WORLD_SIZE", "1")
        torch.save([one.detach() for one in encoder.parameters()], f"weights-of-{number}.pt")
"""
os.chdir(tempfile.mkdtemp())
Path("worker.py").write_text(WORKER)

# %% Once alone, once in two processes that share every batch of 80 rows
exec(WORKER)
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "worker.py"]
done = subprocess.run(torchrun, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
assert done.returncode == 0, done.stderr

# %% The same weights, up to rounding
one, two = (torch.load(f"weights-of-{number}.pt", weights_only=True) for number in (1, 2))
gap = max((a - b).abs().max().item() for a, b in zip(one, two, strict=True))
print(f"after 30 steps the weights of one process and of two differ by {gap:.1e} at most")
assert gap < 1e-4
