"""The TPU kind of replicas, as far as one CPU device can show it: a world of one, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

for package in ("torch", "torch_xla"):
    pytest.importorskip(package, reason=f"{package} is not installed")

ALONE = """
import torch
from trainer.errors import TrainerError
from trainer.replicas import XlaReplicas

replicas = XlaReplicas(vote_every=2)
assert (replicas.rank, replicas.world, replicas.label) == (0, 1, "xla:0/0"), replicas.label
model = torch.nn.Linear(3, 1, bias=False).to(replicas.device)
before = model.weight.detach().cpu().clone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
answers = []
for _ in range(2):
    model(torch.ones(1, 3, device=replicas.device)).sum().backward()
    answers.append(replicas.step(optimizer, stop=True))
assert answers == [False, True], answers
assert torch.allclose(model.weight.detach().cpu(), before - 1), "two steps of 0.5 along a gradient of ones"
assert replicas.total(torch.tensor([2.0, 3.0])).tolist() == [2.0, 3.0]
assert replicas.gather({"a": 1}) == [{"a": 1}]
assert replicas.share(lambda: "made") == "made"
try:
    replicas.share(lambda: (_ for _ in ()).throw(TrainerError("cannot")))
except TrainerError as error:
    assert str(error) == "cannot."
else:
    raise AssertionError("the failure was swallowed")
replicas.close()
print("done")
"""


def test_xlas_own_collectives_step_vote_sum_and_gather() -> None:
    environ = {**os.environ, "PJRT_DEVICE": "CPU"}
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", ALONE], cwd=root, env=environ, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1:] == ["done"], ran.stderr
