"""The trunk and its descriptors on tiny made images, and checkpoints that are not what they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nearer.datasets import load_image_folder
from nearer.exceptions import NearerError
from nearer_papers.semi_supervised._googlenet import GoogLeNetTrunk, load_trunk, rmac_descriptors


def test_a_checkpoint_with_heads_is_read_and_describes_made_images(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    torch.manual_seed(0)
    trunk = GoogLeNetTrunk().eval()
    state = {**trunk.state_dict(), "fc.weight": torch.zeros(1000, 1024), "aux1.conv.conv.weight": torch.zeros(1)}
    torch.save(state, tmp_path / "googlenet.pth")
    loaded = load_trunk(tmp_path / "googlenet.pth")
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "birds" / name).mkdir(parents=True)
        for number in range(2):
            pixels = random.integers(0, 255, (40, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "birds" / name / f"{number}.png")
    images = load_image_folder(tmp_path / "birds").all.images(size=48)
    found = rmac_descriptors(loaded, images, sizes=(64, 48), batch_size=3)
    assert found.shape == (4, 1024)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(found, rmac_descriptors(trunk, images, sizes=(64, 48)), atol=1e-5, rtol=1e-4)


def test_bad_checkpoints_and_images(tmp_path: Path) -> None:
    with pytest.raises(NearerError, match="must be a file with a state dictionary"):
        load_trunk(tmp_path / "none.pth")
    torch.save({"conv1.conv.weight": torch.zeros(1)}, tmp_path / "half.pth")
    with pytest.raises(NearerError, match="must hold the weights of this GoogLeNetTrunk"):
        load_trunk(tmp_path / "half.pth")
    with pytest.raises(NearerError, match=r"\(n, 3, h, w\)"):
        rmac_descriptors(torch.nn.Identity(), torch.rand(2, 1, 8, 8))
    assert len(rmac_descriptors(torch.nn.Identity(), torch.zeros(0, 3, 8, 8))) == 0
