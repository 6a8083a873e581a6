"""The checker of `registers.py` accepts what has an order, and nothing else."""

import math
import random

import pytest

from registers import linearizable


@pytest.mark.parametrize("calls", [
    [],
    [(0, 1, "get", None)],
    [(0, 1, "put", "a"), (2, 3, "get", "a")],
    # Both orders of calls at the same time.
    [(0, 9, "put", "a"), (1, 2, "get", None), (3, 4, "get", "a")],
    [(0, 9, "put", "a"), (0, 9, "put", "b"), (10, 11, "get", "a")],
    # Without answer: seen late, or never.
    [(0, math.inf, "put", "a"), (5, 6, "get", None), (7, 8, "get", "a")],
    [(0, math.inf, "put", "a"), (1, 2, "put", "b"), (3, 4, "get", "b"), (5, 6, "get", "a")],
    [(0, math.inf, "put", "a"), (1, 2, "put", "b"), (3, 4, "get", "b")],
])
def test_histories_with_an_order_are_accepted(calls):
    assert linearizable(calls)


@pytest.mark.parametrize("calls", [
    # A read of nothing after an acknowledged write, of what was overwritten, of what comes back, of what begins later.
    [(0, 1, "put", "a"), (2, 3, "get", None)],
    [(0, 1, "put", "a"), (2, 3, "put", "b"), (4, 5, "get", "a")],
    [(0, 9, "put", "a"), (1, 2, "get", "a"), (3, 4, "get", None)],
    [(0, 1, "get", "a"), (2, 3, "put", "a")],
    # A write without answer takes effect once.
    [(0, math.inf, "put", "a"), (1, 2, "get", "a"), (3, 4, "put", "b"), (5, 6, "get", "b"), (7, 8, "get", "a")],
    # Two readers disagree about the order.
    [(0, 9, "put", "a"), (0, 9, "put", "b"), (1, 2, "get", "a"), (3, 4, "get", "b"), (5, 6, "get", "a")],
])
def test_histories_without_an_order_are_rejected(calls):
    assert not linearizable(calls)


def test_histories_of_a_register_are_accepted_and_one_changed_answer_is_not():
    rng = random.Random(1)
    for _ in range(50):
        value, now, calls = None, 0.0, []
        for i in range(60):
            # The call takes effect at `now`, somewhere between its begin and its end.
            now += 1
            begin, end = now - rng.random() * 4, now + rng.random() * 4
            if rng.random() < 0.4:
                value = f"v{i}"
                calls.append((begin, math.inf if rng.random() < 0.2 else end, "put", value))
            else:
                calls.append((begin, end, "get", value))
        assert linearizable(calls)
        now += 10
        assert not linearizable([*calls, (now, now + 1, "get", "never written")])
        calls.append((now, now + 1, "put", "last"))
        assert linearizable([*calls, (now + 2, now + 3, "get", "last")])
        assert not linearizable([*calls, (now + 2, now + 3, "get", None)])
