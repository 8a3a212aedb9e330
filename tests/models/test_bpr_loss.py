"""The closed-form gradients against automatic differentiation."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from leporid.models.neural.bpr_loss import row_penalty, table_bpr_loss

# float32 goes through the compiled kernel, float64 through torch, as float32 on a GPU does.
DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize("penalty", [0.0, 0.4])
def test_the_table_loss_and_its_gradients(
    negatives: int, penalty: float, dtype: torch.dtype
) -> None:
    source = torch.Generator().manual_seed(negatives)
    left = torch.randn(5, 3, generator=source, dtype=dtype).requires_grad_()
    right = torch.randn(7, 3, generator=source, dtype=dtype).requires_grad_()
    users, positives = torch.tensor([0, 4, 4, 2]), torch.tensor([6, 1, 1, 3])
    others = torch.randint(7, (4, negatives), generator=source)
    margin = (left[users][:, None] * (right[positives][:, None] - right[others])).sum(-1)
    lengths = sum((rows**2).sum() for rows in (left[users], right[positives], right[others]))
    expected = 1.7 * (-functional.logsigmoid(margin).mean() + penalty / 2 * lengths / 4)
    found = 1.7 * table_bpr_loss(left, right, users, positives, others, penalty)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, (left, right)), torch.autograd.grad(expected, (left, right))
    )


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    left = torch.tensor([[300.0, 0.0]]).requires_grad_()
    right = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).requires_grad_()
    users, first, second = torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([[1], [0]])
    loss = table_bpr_loss(left, right, users, first, second)
    assert loss.item() == pytest.approx(300.0)
    (found,) = torch.autograd.grad(loss, right)
    torch.testing.assert_close(found, torch.tensor([[150.0, 0.0], [-150.0, 0.0]]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_table_on_both_sides_gets_both_gradients(dtype: torch.dtype) -> None:
    source = torch.Generator().manual_seed(0)
    table = torch.randn(6, 2, generator=source, dtype=dtype).requires_grad_()
    users, positives, others = torch.tensor([0, 1]), torch.tensor([3, 4]), torch.tensor([[5], [3]])
    margin = (table[users] * (table[positives] - table[others[:, 0]])).sum(-1)
    expected = torch.autograd.grad(-functional.logsigmoid(margin).mean(), table)
    found = torch.autograd.grad(table_bpr_loss(table, table, users, positives, others), table)
    torch.testing.assert_close(found, expected)


def test_the_penalty_counts_rows_as_often_as_they_occur() -> None:
    table = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    rows = torch.tensor([[0, 2], [2, 3], [2, 0]])
    expected = 0.5 * (table[rows] ** 2).sum() / 3
    found = row_penalty(table, rows, 3)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(3 * found, table), torch.autograd.grad(3 * expected, table)
    )


def test_narrow_tables_take_the_plain_form() -> None:
    """The compiled pass reads float32; a table in bfloat16 must not reach it."""
    rows = torch.tensor([0, 1]), torch.tensor([0, 2]), torch.tensor([[1], [0]])
    left, right = torch.randn(2, 4), torch.randn(3, 4)
    wide = table_bpr_loss(left, right, *rows)
    narrow = table_bpr_loss(left.bfloat16(), right.bfloat16(), *rows)
    assert narrow.item() == pytest.approx(wide.item(), rel=0.05)
