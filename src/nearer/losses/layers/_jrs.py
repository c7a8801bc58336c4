"""Joint representation similarity: items of different classes should not look alike in several layers at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer._tracing import leave_to_eager
from nearer._validation import as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.layers._layer_kernels import Gaussian
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.losses.proxies._margin_softmax import AMSoftmaxLoss
from nearer.pairwise._shared import attach, full_precision, inner_settings, joint_similarity

Combine = Literal["product", "sum", "concatenate"]


class JRSLoss(nn.Module):
    """The mean over ordered pairs of different classes of K_ij = Π_l k_l(x_i^l, x_j^l).

    `kernels` has one kernel per layer (default: Gaussian mixtures of three, and of one for a third layer, the
    cosines to the class vectors). `combine` "product" is JRS, "sum" the sum of the single similarities (MRD),
    "concatenate" one kernel on the layers side by side. Bandwidths come from the batch and carry no gradient. One
    class or one item gives 0.

    >>> JRSLoss()([torch.zeros(2, 3), torch.zeros(2, 2)], torch.tensor([0, 1])).item()   # alike in every layer
    1.0

    Reference: Chu et al. 2020 (JRD), eq. 3; N_pairs counts ordered pairs.

    Args:
        kernels: one for each layer; Gaussian mixtures if None.
        combine: "product", "sum" or "concatenate" of the layers.
    """

    extra_repr = inner_settings

    def __init__(self, *, kernels: Sequence[Any] | None = None, combine: Combine = "product") -> None:
        super().__init__()
        self.kernels = None if kernels is None else list(kernels)
        self.combine = check_choice(combine, "combine", ["product", "sum", "concatenate"])

    @full_precision
    def forward(self, layers: Sequence[Tensor], labels: Any) -> Tensor:
        """The similarity of `layers`, each (n, d_l), for class labels (n,)."""
        leave_to_eager("JRSLoss cannot be compiled: its gradient is written by hand, in tiles.")
        rows, y = checked_layers(layers, labels)
        if self.combine == "concatenate":
            rows = [torch.cat(rows, dim=1)]
        way: Literal["product", "sum"] = "sum" if self.combine == "sum" else "product"
        return pair_mean(rows, self._of_layers(len(rows)), y, way, "different")

    def _of_layers(self, count: int) -> list[Any]:
        """One kernel for each of `count` layers."""
        if self.kernels is None:
            return [Gaussian(components=1 if layer == 2 else 3) for layer in range(count)]
        if len(self.kernels) != count:
            raise ParameterError(f"`kernels` must be one for each of the {count} layers, got {len(self.kernels)}.")
        return self.kernels


class JRDLoss(nn.Module):
    """AMSoftmax + α · JRS: L = L_AM + α L_JRS / N_pairs.

    The layers are the pooled features, the unit embedding, and the cosines to the class vectors; the last is formed
    here, through a small factor of WᵀW when there are more classes than dimensions.

    >>> loss = JRDLoss(AMSoftmaxLoss(3, 4))
    >>> loss(torch.eye(4), torch.tensor([0, 1, 2, 0]), pooled=torch.rand(4, 6)).item() > 0
    True

    Args:
        softmax: the loss with class vectors, such as `AMSoftmaxLoss`.
        alpha: α, the weight of the joint similarity.
        jrs: that similarity; a `JRSLoss` of three layers if None.
    """

    extra_repr = inner_settings

    def __init__(self, softmax: AMSoftmaxLoss, *, alpha: float = 1.0, jrs: JRSLoss | None = None) -> None:
        super().__init__()
        self.softmax = softmax
        self.alpha = alpha
        self.jrs = jrs or JRSLoss()

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any, *, pooled: Tensor | None = None) -> Tensor:
        """The loss of embeddings (n, d) and, if given, the layer before them (n, p)."""
        x, y = self.softmax.checked(embeddings, labels)
        layers = [x, class_layer(x, self.softmax.vectors())]
        if pooled is not None:
            layers.insert(0, pooled)
        similarity: Tensor = self.jrs(layers, y)
        return self.softmax.compute(x, y, sharded=False) + self.alpha * similarity


def class_layer(x: Tensor, vectors: Tensor) -> Tensor:
    """Rows whose distances are those of the cosines XWᵀ: XWᵀ itself, or X times a square factor of WᵀW if narrower.

    >>> x, w = torch.rand(4, 2), torch.rand(9, 2)
    >>> near = torch.cdist(class_layer(x, w), class_layer(x, w))
    >>> torch.allclose(near, torch.cdist(x @ w.t(), x @ w.t()), atol=1e-4)
    True
    """
    if len(vectors) <= vectors.shape[1]:
        return x @ vectors.t()
    wide = vectors.double()
    gram = wide.t() @ wide
    # A little on the diagonal: few distinct proxies make it singular, and so little is nothing in single precision.
    jitter = 1e-7 * gram.diagonal().mean().detach() * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor: Tensor = torch.linalg.cholesky(gram + jitter)
    return x @ factor.to(x.dtype)


def pair_mean(
    layers: Sequence[Tensor],
    kernels: Sequence[Any],
    labels: Tensor,
    combine: Literal["product", "sum"],
    pairs: Literal["different", "same"],
) -> Tensor:
    """The mean of the joint similarity over ordered pairs of different (or of the same) classes."""
    wanted = torch.is_grad_enabled() and any(layer.requires_grad for layer in layers)
    with torch.no_grad():
        wide = [layer if layer.dtype == torch.float64 else layer.float() for layer in layers]
        fitted = [kernel.fitted(layer) for kernel, layer in zip(kernels, wide, strict=True)]
        value = joint_similarity(fitted, labels, combine=combine, pairs=pairs, gradient=wanted).to(layers[0].dtype)
        if not wanted:
            return value
        gradients = [kernel.gradient().to(layer.dtype) for kernel, layer in zip(fitted, layers, strict=True)]
    return attach(value, layers, gradients)


def checked_layers(layers: Sequence[Tensor], labels: Any) -> tuple[list[Tensor], Tensor]:
    """Layers of one length and labels for them."""
    if not isinstance(layers, Sequence):
        raise ParameterError(f"`layers` must be a list of tensors, one each, got a {type(layers).__name__}.")
    rows = [check_embeddings(layer, f"layers[{number}]") for number, layer in enumerate(layers)]
    if not rows:
        raise ParameterError("`layers` must be one layer or more, got none.")
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ShapeError(f"`layers` must have the same number of rows, got {sorted(lengths)}.")
    return rows, as_labels(labels, "labels", n=len(rows[0])).to(rows[0].device)


@contextmanager
def tapped(network: nn.Module, names: Sequence[str]) -> Iterator[list[Tensor]]:
    """The outputs of named sub-modules, in the order of the names, filled at each forward pass inside the block.

    Maps of shape (n, channels, h, w) are averaged over their places. The hooks go when the block ends, also after
    an error.

    >>> import torch
    >>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    >>> with tapped(network, ["0", "2"]) as layers:
    ...     _ = network(torch.rand(4, 3))
    >>> [tuple(layer.shape) for layer in layers]
    [(4, 5), (4, 2)]

    Args:
        network: the module to listen to.
        names: names of its sub-modules.
    """
    modules = dict(network.named_modules())
    unknown = [name for name in names if name not in modules or not name]
    if unknown or not names:
        raise ParameterError(
            f"`names` must be sub-modules of the network ({', '.join(list(modules)[1:9])}, ...), got "
            f"{unknown or 'none'}."
        )
    layers: list[Tensor] = [None] * len(names)  # type: ignore[list-item]

    def hook(number: int) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                raise ParameterError(f"`{names[number]}` must return a tensor, got {type(output).__name__}.")
            layers[number] = output.flatten(2).mean(2) if output.ndim > 2 else output

        return keep

    handles = [modules[name].register_forward_hook(hook(number)) for number, name in enumerate(names)]
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()
