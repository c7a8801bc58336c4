"""The loss of layers against the printed formula, its readings, and bad input."""

from __future__ import annotations

import pytest
import torch

from nearer.exceptions import NearerError
from nearer.losses import AMSoftmaxLoss, JRDLoss, JRSLoss, Polynomial
from nearer_papers.joint_representations._jrd import LAYERS, Layer, LayeredLoss, mixtures


def problem() -> tuple[AMSoftmaxLoss, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    softmax = AMSoftmaxLoss(4, 5, generator=generator).double()
    embeddings = torch.nn.functional.normalize(torch.randn(9, 5, generator=generator).double(), dim=1)
    pooled = torch.rand(9, 7, generator=generator).double()
    return softmax, embeddings, pooled, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0])


def test_all_layers_are_the_published_loss() -> None:
    softmax, embeddings, pooled, labels = problem()
    loss = LayeredLoss(softmax, JRSLoss(kernels=mixtures(LAYERS)), alpha=0.7)
    value = loss(torch.cat([embeddings, pooled], dim=1), labels)
    expected = JRDLoss(softmax, alpha=0.7)(embeddings, labels, pooled=pooled)
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize(
    "layers", [("embedding", "classes"), ("features", "embedding"), ("embedding",)], ids=["JRD-C", "Pooling", "X"]
)
def test_a_part_of_the_layers_by_a_loop(layers: tuple[Layer, ...]) -> None:
    softmax, embeddings, pooled, labels = problem()
    loss = LayeredLoss(softmax, JRSLoss(kernels=[Polynomial(degree=2) for _ in layers]), alpha=0.5, layers=layers)
    value = loss(torch.cat([embeddings, pooled], dim=1), labels)
    rows = {"features": pooled, "embedding": embeddings, "classes": embeddings @ softmax.vectors().detach().t()}
    total, count = 0.0, 0
    for i in range(9):
        for j in range(9):
            if labels[i] != labels[j]:
                count += 1
                product = 1.0
                for name in layers:
                    product *= float(rows[name][i] @ rows[name][j] + 1) ** 2
                total += product
    expected = softmax(embeddings, labels).item() + 0.5 * total / count
    assert value.item() == pytest.approx(expected, rel=1e-8)


def test_unit_features_and_gradients() -> None:
    softmax, embeddings, pooled, labels = problem()
    loss = LayeredLoss(softmax, JRSLoss(kernels=mixtures(LAYERS)), unit_features=True)
    one = loss(torch.cat([embeddings, pooled], dim=1), labels)
    other = loss(torch.cat([embeddings, 3 * pooled], dim=1), labels)
    torch.testing.assert_close(one, other)
    rows = torch.cat([embeddings, pooled], dim=1).requires_grad_()
    fixed = LayeredLoss(softmax, JRSLoss(kernels=[Polynomial(degree=2) for _ in LAYERS]))
    assert torch.autograd.gradcheck(lambda x: fixed(x, labels), (rows,))


def test_layers_that_are_none() -> None:
    softmax = problem()[0]
    with pytest.raises(NearerError, match="`layers` must be one of"):
        LayeredLoss(softmax, JRSLoss(), layers=("pooled",))  # type: ignore[arg-type]
    with pytest.raises(NearerError, match="`layers` must be one or more"):
        LayeredLoss(softmax, JRSLoss(), layers=())
