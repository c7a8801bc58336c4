"""Samplers that follow the embeddings: near classes together, the same batches after a restart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nearer.exceptions import LabelError, ParameterError
from nearer.training import Checkpoints, EncoderStep, TensorBatches, train
from nearer.training._loop import Moment
from nearer_papers.systems import ClassTree, HardnessController, HierarchicalTripletLoss, RankRange, SmartMiningLoss
from nearer_papers.systems._following_samplers import AnchorNeighborSampler, RankRangeSampler
from nearer_papers.systems._rebuilding import follow_loss, rebuild

LABELS = torch.arange(60) // 5 * 2  # twelve classes with gaps


def on_a_circle(labels: torch.Tensor) -> torch.Tensor:
    """Class 2k at angle k/3: neighbours in number are neighbours in space."""
    angle = labels / 2 / 3 + 0.02 * (torch.arange(len(labels)) % 5)
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def sampler(tree: ClassTree, **settings: int) -> AnchorNeighborSampler:
    return AnchorNeighborSampler(LABELS, tree, **{"anchors": 2, "neighbors": 2, "per_class": 3, **settings})


class TestAnchorNeighbors:
    def test_a_batch_is_anchors_and_their_nearest_classes(self):
        tree = ClassTree()
        tree.update(on_a_circle(LABELS), LABELS)
        for rows in sampler(tree, anchors=1).epoch(0):
            anchor, *others = LABELS[rows].reshape(3, 3)[:, 0].tolist()
            assert others == tree.nearest([anchor], count=2)[0].tolist()

    @pytest.mark.parametrize("ready", [False, True])
    def test_no_class_comes_twice_and_all_items_take_turns(self, ready):
        tree = ClassTree()
        if ready:
            tree.update(on_a_circle(LABELS), LABELS)
        batches = sampler(tree, batches=12).epoch(1)
        assert len(batches) == 12
        for rows in batches:
            classes = LABELS[rows].reshape(6, 3)
            assert (classes == classes[:, :1]).all()
            assert len(classes[:, 0].unique()) == 6
            assert len(rows.unique()) == 18
        assert set(LABELS[torch.cat(list(batches))].tolist()) == set(LABELS.tolist())

    def test_the_same_epoch_twice_and_another(self):
        tree = ClassTree()
        tree.update(on_a_circle(LABELS), LABELS)
        first, again, other = (torch.cat(list(sampler(tree).epoch(number))) for number in (3, 3, 4))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_a_tree_of_more_classes_serves(self):
        tree = ClassTree()
        tree.update(on_a_circle(LABELS), LABELS)
        some = LABELS[LABELS < 12]
        rows = torch.cat(list(AnchorNeighborSampler(some, tree, anchors=1, neighbors=1, per_class=2).epoch(0)))
        assert rows.max() < len(some)

    def test_bad_input(self):
        with pytest.raises(ParameterError, match="at most the 12 classes there are, got 15"):
            sampler(ClassTree(), anchors=3, neighbors=4)
        tree = ClassTree()
        tree.update(torch.eye(2), [0, 1])
        with pytest.raises(LabelError, match="among the 2 classes of the tree, got"):
            sampler(tree).epoch(0)


def exact(embeddings):
    return lambda queries, k: torch.cdist(queries, embeddings).argsort(dim=1, stable=True)[:, :k]


class TestRankRange:
    def test_anchors_positives_and_mined_negatives(self):
        miner = RankRange(exact, low=1, high=4)
        miner.update(on_a_circle(LABELS), LABELS)
        batches = RankRangeSampler(LABELS, miner, anchors=6, negatives=2).epoch(0)
        assert len(batches) == 10
        seen = []
        for rows in batches:
            assert len(rows.unique()) == len(rows) <= 24
            anchors = rows[:6].tolist()
            seen += anchors
            mined = set(miner.table[rows[:6]].reshape(-1).tolist())
            classes = {int(LABELS[row]) for row in anchors}
            # Whatever is neither anchor nor of an anchor's class was mined.
            assert all(int(LABELS[row]) in classes or row in mined for row in rows.tolist())
            assert len(mined & set(rows.tolist())) >= 2
            for row in anchors:
                assert (LABELS[rows] == LABELS[row]).sum() >= 2
        assert sorted(seen) == list(range(60)), "items take turns as anchors"

    def test_random_negatives_until_there_is_a_table(self):
        batches = RankRangeSampler(LABELS, RankRange(exact), anchors=5, negatives=3, batches=4).epoch(2)
        for rows in batches:
            assert len(LABELS[rows].unique()) > 1

    def test_missing_negatives_are_replaced_by_random_ones(self):
        miner = RankRange(lambda embeddings: lambda queries, k: np.full((len(queries), k), -1), low=0, high=2)
        miner.update(on_a_circle(LABELS), LABELS)
        assert (miner.table == -1).all()
        for rows in RankRangeSampler(LABELS, miner, anchors=1).epoch(0):
            assert len(LABELS[rows].unique()) == 2

    def test_bad_input(self):
        with pytest.raises(LabelError, match="two classes, one of them with two items"):
            RankRangeSampler([0, 0, -1], RankRange(exact), anchors=1)
        with pytest.raises(ParameterError, match="`anchors` must be between 1 and 2"):
            RankRangeSampler([0, 0, 1], RankRange(exact), anchors=3)


class TestRebuild:
    def test_before_the_first_epoch_and_after_each(self):
        tree, calls = ClassTree(), []

        def embed():
            calls.append(1)
            return on_a_circle(LABELS)

        callback = rebuild(tree, embed=embed, labels=LABELS, every=2)
        for kind, epoch, expected in [("start", 0, 1), ("step", 0, 1), ("epoch", 1, 1), ("epoch", 2, 2)]:
            callback(Moment(kind, epoch, 0, 9))
            assert len(calls) == expected
        callback(Moment("start", 2, 0, 9))
        assert len(calls) == 2, "a tree that was restored is not built again"
        with pytest.raises(ParameterError, match="`parts` must be one thing"):
            rebuild(embed=embed, labels=LABELS)
        with pytest.raises(ParameterError, match="`every` must be at least 1"):
            rebuild(tree, embed=embed, labels=LABELS, every=0)

    def test_a_resumed_run_takes_the_same_steps(self, tmp_path):
        """HTL with tree and sampler, stopped after two of four epochs."""
        x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)) + torch.eye(12, 6)[LABELS // 2] * 2

        def run(epochs, folder):
            torch.manual_seed(0)
            encoder = torch.nn.Linear(6, 3)
            loss = HierarchicalTripletLoss()
            optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
            step = EncoderStep(encoder, loss, optimizer, TensorBatches(x, LABELS))
            renew = rebuild(loss.tree, embed=lambda: encoder(x).detach(), labels=LABELS)
            checkpoints = Checkpoints(folder)
            history = train(step, sampler(loss.tree), epochs=epochs, callbacks=[renew], checkpoints=checkpoints)
            return encoder.weight.detach().clone(), [epoch["loss"] for epoch in history.epochs]

        whole, losses = run(4, tmp_path / "whole")
        run(2, tmp_path / "parts")
        resumed, again = run(4, tmp_path / "parts")
        assert torch.equal(whole, resumed)
        assert np.allclose(losses, again)
        assert losses[-1] < losses[0]

    def test_smart_mining_resumes_with_its_table_and_its_level(self, tmp_path):
        x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)) + torch.eye(12, 6)[LABELS // 2] * 2

        def run(epochs, folder):
            torch.manual_seed(0)
            encoder = torch.nn.Linear(6, 3)
            controller = HardnessController(target=2.0, momentum=0.5)
            miner = RankRange(exact, low=4, high=16, controller=controller)
            optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
            step = EncoderStep(encoder, SmartMiningLoss(), optimizer, TensorBatches(x, LABELS))
            step.module["mining"] = miner
            renew = rebuild(miner, embed=lambda: encoder(x).detach(), labels=LABELS)
            train(
                step,
                RankRangeSampler(LABELS, miner, anchors=10),
                epochs=epochs,
                callbacks=[follow_loss(controller), renew],
                checkpoints=Checkpoints(folder),
            )
            return encoder.weight.detach().clone(), int(controller.level)

        whole, level = run(3, tmp_path / "whole")
        run(1, tmp_path / "parts")
        resumed, again = run(3, tmp_path / "parts")
        assert torch.equal(whole, resumed)
        assert level == again > 0
