"""State comes back as it went, through real JSON, and random generators go on as they would have."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearer.exceptions import CorruptFileError, ParameterError
from nearer.training._state import get_random_state, pack, set_random_state, unpack

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
keys = st.text(max_size=5) | st.integers()
states = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(states)
def test_round_trip_through_json(state):
    tensors, document = pack(state)
    found = unpack(tensors, json.loads(json.dumps(document, allow_nan=False)))
    assert found == state
    assert str(found) == str(state), "types too"


def test_an_optimizer_round_trip():
    layer = torch.nn.Linear(3, 2)
    adam = torch.optim.AdamW(layer.parameters(), amsgrad=True)
    layer(torch.ones(1, 3)).sum().backward()
    adam.step()
    tensors, document = pack(adam.state_dict())
    other = torch.optim.AdamW(layer.parameters(), amsgrad=True)
    other.load_state_dict(unpack(tensors, json.loads(json.dumps(document))))
    before, after = adam.state_dict(), other.state_dict()
    assert before["param_groups"] == after["param_groups"]
    for number, entry in before["state"].items():
        for name, value in entry.items():
            assert torch.equal(value, after["state"][number][name])


def test_random_generators_go_on():
    state = get_random_state()
    tensors, document = pack(state)

    def draw():
        return torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), torch.randn(1).item()  # noqa: NPY002

    first = draw()
    set_random_state(unpack(tensors, json.loads(json.dumps(document))))
    assert draw() == first


def test_what_cannot_be_saved_is_named():
    with pytest.raises(ParameterError, match=r"state\.a\.0 must be a tensor.*got object"):
        pack({"a": [object()]})
    with pytest.raises(CorruptFileError, match="must hold a tensor '7'"):
        unpack({}, {"$tensor": "7"})
