"""Two streams: which batches meet, splitting, the loss across them, DAMLRRM end to end."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from every_loss import batch, value_and_gradient
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses import BinomialDevianceLoss, ContrastiveLoss, RAWLoss
from nearer.training import ClassSampler, EncoderStep, TensorBatches, UniformSampler, train
from nearer_papers.systems import SpanningTree
from nearer_papers.systems._across_streams import AcrossStreams
from nearer_papers.systems._two_streams import TwoStreams


@settings(max_examples=30, deadline=None)
@given(a=st.integers(1, 6), b=st.integers(1, 6), epoch=st.integers(0, 4))
def test_each_stream_goes_on_where_it_was(a, b, epoch):
    first, second = UniformSampler(2 * a, batch_size=2, seed=1), UniformSampler(3 * b, batch_size=3, seed=2)
    streams = TwoStreams(first, second)
    assert len(streams) == max(a, b) == len(streams.epoch(epoch))

    def endless(sampler):
        return itertools.chain.from_iterable(sampler.epoch(number) for number in itertools.count())

    start, stop = epoch * len(streams), (epoch + 1) * len(streams)
    expected = zip(*(itertools.islice(endless(one), start, stop) for one in (first, second)), strict=True)
    for rows, (left, right) in zip(streams.epoch(epoch), expected, strict=True):
        assert torch.equal(rows[:2], left)
        assert rows[2:].tolist() == [row for row in right.tolist() if row not in left]
        assert len(rows.unique()) == len(rows)


def test_unequal_lengths_make_new_pairs_meet():
    streams = TwoStreams(UniformSampler(20, batch_size=2, seed=1), UniformSampler(21, batch_size=3, seed=2))
    met = [tuple(sorted(rows.tolist())) for number in range(5) for rows in streams.epoch(number)]
    assert len(met) == 50
    assert len(set(met)) == 50


def test_different_structures():
    labels = torch.arange(40) // 4
    streams = TwoStreams(ClassSampler(labels, n_classes=3, per_class=2), UniformSampler(40, batch_size=7))
    assert streams.first_size == 6
    for rows in streams.epoch(0):
        assert (labels[rows[:6]].view(3, 2)[:, 0] == labels[rows[:6]].view(3, 2)[:, 1]).all()


def test_a_first_stream_of_changing_size_is_refused():
    streams = TwoStreams(UniformSampler(5, batch_size=2), UniformSampler(5, batch_size=2))
    with pytest.raises(ShapeError, match=r"batches of one size, got 2 and 1 rows\. Let it drop the rest"):
        streams.epoch(0)

    class Empty:
        def __len__(self):
            return 0

        def epoch(self, number):
            return []

    with pytest.raises(ParameterError, match="a batch or more per epoch"):
        TwoStreams(Empty(), UniformSampler(5, batch_size=2))


@pytest.mark.parametrize("loss", [RAWLoss(), BinomialDevianceLoss(), ContrastiveLoss(miner=SpanningTree())])
def test_only_pairs_across_count(loss):
    """Against the dense loss of both directions."""
    x, y = batch(20, 4)
    across = AcrossStreams(loss, first=8)

    def dense(e):
        one = loss.dense(e[:8], y[:8], database=e[8:], database_labels=y[8:])
        return (one + loss.dense(e[8:], y[8:], database=e[:8], database_labels=y[:8])) / 2

    expected, found = value_and_gradient(dense, x), value_and_gradient(across, x, y)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


def test_bad_input():
    x, y = batch(6, 2)
    with pytest.raises(ShapeError, match="more than the 6 rows of the first stream, got 6"):
        AcrossStreams(RAWLoss(), first=6)(x, y)
    with pytest.raises(ParameterError, match="`loss` must be a pair loss"):
        AcrossStreams(torch.nn.MSELoss(), first=2)
    with pytest.raises(ParameterError, match="`first` must be at least 1"):
        AcrossStreams(RAWLoss(), first=0)


def test_damlrrm_learns():
    """Tree positives and two streams, on classes that half of the coordinates hide."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 6
    x = torch.eye(6)[labels] + 0.2 * torch.randn(120, 6, generator=generator)
    x = torch.cat([x, 2 * torch.randn(120, 6, generator=generator)], dim=1)
    torch.manual_seed(0)
    encoder = torch.nn.Linear(12, 4)
    streams = TwoStreams(
        ClassSampler(labels, n_classes=4, per_class=4), UniformSampler(120, batch_size=24, drop_last=True)
    )
    loss = AcrossStreams(RAWLoss(miner=SpanningTree()), first=streams.first_size)
    step = EncoderStep(encoder, loss, torch.optim.Adam(encoder.parameters(), lr=0.02), TensorBatches(x, labels))

    def hits():
        z = torch.nn.functional.normalize(encoder(x), dim=1).detach()
        return float((labels[(z @ z.T).fill_diagonal_(-1).argmax(1)] == labels).float().mean())

    before = hits()
    history = train(step, streams, epochs=20)
    assert hits() > max(0.9, before + 0.2)
    assert history.epochs[-1]["loss"] < history.epochs[0]["loss"]
