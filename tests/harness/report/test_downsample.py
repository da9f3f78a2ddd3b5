import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.report.downsample import POINTS_MAX, grid, min_max

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300)


@given(VALUES, st.integers(1, 40))
def test_smallest_and_largest_value_always_survive(values: list[float], spread: int) -> None:
    t_s = np.arange(len(values), dtype=float) / spread
    column = np.array(values)
    folded = min_max(t_s, column, grid(0.0, float(t_s[-1]) + 1, 1.0))
    assert np.nanmin(folded) == column.min()
    assert np.nanmax(folded) == column.max()


def test_eight_hours_at_one_hertz_fit_and_keep_a_spike_of_one_second() -> None:
    t_s = np.arange(8 * 3600, dtype=float)
    values = np.full(len(t_s), 5.0)
    values[12_345] = 900.0
    values[20_000] = -3.0
    place = grid(0.0, 8 * 3600.0, 1.0)
    folded = min_max(t_s, values, place)
    assert len(folded) == len(place.x_s) <= POINTS_MAX
    assert abs(place.x_s[int(np.nanargmax(folded))] - 12_345) < place.width_s
    assert abs(place.x_s[int(np.nanargmin(folded))] - 20_000) < place.width_s


def test_a_silence_stays_a_gap() -> None:
    t_s = np.r_[np.arange(0, 20.0), np.arange(60, 80.0)]
    place = grid(0.0, 80.0, 1.0)
    folded = min_max(t_s, np.ones(len(t_s)), place)
    assert np.isnan(folded[(place.x_s > 22) & (place.x_s < 58)]).all()


def test_values_come_in_the_order_in_which_they_were_seen() -> None:
    folded = min_max(np.array([0.0, 1.0, 2.0, 3.0]), np.array([9.0, 1.0, 5.0, 5.0]), grid(0.0, 8.0, 2.0))
    assert folded[:2].tolist() == [9.0, 1.0]
