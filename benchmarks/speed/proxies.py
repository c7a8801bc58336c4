"""Softmax losses over many classes beside pytorch-metric-learning, and JRS beside its Gram products (one thread).

python benchmarks/speed/proxies.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.losses import AMSoftmaxLoss, ArcFaceLoss, JRSLoss, NormalizedSoftmaxLoss, SoftTripleLoss
from record import ROOT, interleaved, peak_megabytes, save

B, C, D = 512, 100_000, 128
LAYERS = (1024, 512, 512)


def contestants(name: str) -> dict[str, torch.nn.Module]:
    from pytorch_metric_learning import losses as peers

    made = {
        "am-softmax": lambda: (AMSoftmaxLoss(C, D), peers.CosFaceLoss(C, D)),
        "arcface": lambda: (ArcFaceLoss(C, D), peers.ArcFaceLoss(C, D)),
        "normalized softmax": lambda: (NormalizedSoftmaxLoss(C, D), peers.NormalizedSoftmaxLoss(C, D)),
        "soft-triple": lambda: (
            SoftTripleLoss(C, D, centers=2),
            peers.SoftTripleLoss(C, D, centers_per_class=2),
        ),
    }
    return dict(zip(("ours", "peer"), made[name](), strict=True))


def step(loss: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    z = x.clone().requires_grad_()
    loss.zero_grad()
    loss(z, y).backward()


def memory(name: str, side: str) -> None:
    torch.set_num_threads(1)
    loss = contestants(name)[side]
    x, y = torch.randn(B, D), torch.randint(1000, (B,))
    # Gradients of the class vectors are everyone's; they are there before the measure begins.
    for parameter in loss.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = peak_megabytes()
    z = x.clone().requires_grad_()
    loss(z, y).backward()
    print(json.dumps(peak_megabytes() - before))


def jrs_memory() -> None:
    torch.set_num_threads(1)
    layers = [torch.randn(8192, d).requires_grad_() for d in LAYERS]
    y = torch.arange(8192) % 100
    before = peak_megabytes()
    JRSLoss()(layers, y).backward()
    print(json.dumps(peak_megabytes() - before))


def asked(*words: str) -> float:
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--memory"]:
        memory(sys.argv[2], sys.argv[3])
        return
    if sys.argv[1:2] == ["--jrs-memory"]:
        jrs_memory()
        return
    torch.set_num_threads(1)
    rows = []
    x, y = torch.randn(B, D), torch.randint(1000, (B,))
    for name in ("am-softmax", "arcface", "normalized softmax", "soft-triple"):
        sides = contestants(name)
        times = interleaved({side: lambda loss=loss: step(loss, x, y) for side, loss in sides.items()}, repeats=3)
        used = {side: asked("--memory", name, side) for side in sides}
        rows.append({"what": name, "seconds": times, "extra MB": used, "faster": times["peer"] / times["ours"]})
        print(rows[-1])
    layers = [torch.randn(1024, d).requires_grad_() for d in LAYERS]
    labels = torch.arange(1024) % 100
    loss = JRSLoss()

    def grams() -> None:
        for layer in layers:
            layer.detach() @ layer.detach().t()

    times = interleaved({"jrs": lambda: loss(layers, labels).backward(), "grams": grams}, repeats=9)
    ratio = times["jrs"] / times["grams"]
    rows.append({"what": "jrs", "seconds": times, "ratio": ratio, "extra MB": asked("--jrs-memory")})
    print(rows[-1])
    print(
        save(
            "proxies", rows, key=["what"], packages=("pytorch-metric-learning",), threads=1, B=B, C=C, D=D
        ).relative_to(ROOT)
    )


if __name__ == "__main__":
    main()
