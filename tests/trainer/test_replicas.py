"""Both kinds of replicas in processes of their own; the TPU kind as far as one CPU device can show it: alone."""

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
for thing in ({"a": 1}, "longer" * 1000):
    assert replicas.broadcast(thing) == thing
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


TOGETHER = """
import os, sys
import torch, torch_xla
from trainer.config import parse
from trainer.launch import launch

def way(replicas, config, stopping):
    shapes = [(3,), (), (2, 5, 7), (1,), (17, 3)]  # none of which fills whole lines of memory
    wanted = lambda step, rank, shape: torch.full(shape, float(step)) + torch.arange(1.0, 3.0)[rank]
    parameters = [torch.zeros(shape, device=replicas.device, requires_grad=True) for shape in shapes]
    unused = torch.zeros(4, device=replicas.device, requires_grad=True)
    for step in range(3):
        for p, shape in zip(parameters, shapes):
            p.grad = 2 * wanted(step, replicas.rank, shape).to(replicas.device) / 2
        stops = replicas.average([*parameters, unused], stop=step == 1 and replicas.rank == 1)
        assert stops is (step == 1), (step, stops)
        after = [p.grad + 0 for p in parameters]
        torch_xla.sync()
        for found, shape in zip(after, shapes):
            assert torch.equal(found.cpu(), torch.full(shape, step + 1.5)), (step, shape, found)
        assert unused.grad is None
    assert replicas.broadcast(("rank", replicas.rank)) == ("rank", 0)
    os.write(1, b"averaged\\n")
    return 0

sys.exit(launch(way, parse(["--fake-data", "--num-cores", "2"], os.environ)))
"""


def test_gradients_of_any_shape_become_their_means_and_one_vote_stops_all() -> None:
    environ = {**os.environ, "PJRT_DEVICE": "CPU"}
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", TOGETHER], cwd=root, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("averaged") == 2


def test_xlas_own_collectives_step_vote_sum_and_gather() -> None:
    environ = {**os.environ, "PJRT_DEVICE": "CPU"}
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", ALONE], cwd=root, env=environ, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1:] == ["done"], ran.stderr


CACHED = """
import os, sys, threading
import torch, torch_xla
from trainer.compilation import CACHE_PATH, keep_compiled

threads = [threading.Thread(target=keep_compiled, args=(sys.argv[1],)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(os.environ[CACHE_PATH])
torch.ones(2, device=torch_xla.device()).sum().item()
keep_compiled(sys.argv[2])
print(os.environ[CACHE_PATH])
"""


def test_each_process_keeps_what_it_compiles_in_a_directory_of_its_own(tmp_path: Path) -> None:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PJRT_LOCAL_PROCESS_RANK": "3"}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CACHED, str(tmp_path / "one"), str(tmp_path / "other")]
    ran = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True)
    own = tmp_path / "one" / "process-3"
    assert ran.stdout.splitlines() == [str(own), str(own)], ran.stderr
    assert list(own.iterdir()), "torch_xla has kept nothing there"
    assert not (tmp_path / "other").exists()
