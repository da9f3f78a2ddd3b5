"""Lines through correlated noise, in two ways that are wrong for different reasons.

fit            generalised least squares under AR(1) noise whose correlation is chosen by restricted maximum likelihood.
               Efficient; too sure of itself where the noise forgets more slowly than AR(1) does.
low_frequency  least squares on the lowest cosine modes of the series, with a t interval (Mueller and Watson 2008,
               "Testing models of low-frequency variability"). It assumes nothing of the shorter waves.

Series are columns of shape [blocks, series]; `at` [blocks] holds the time of each block in block lengths, with gaps
where blocks are missing.
"""

from dataclasses import dataclass

import numpy as np

from assertions.rows import Floats

CORRELATIONS = np.concatenate([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5], 1 - np.geomspace(0.45, 0.0005, 24)])
"""Correlations of neighbouring blocks that are tried."""
MODES = 7
"""Cosine modes of `low_frequency` for a series that may remember long."""


def whiten(correlation: float, at: Floats, columns: Floats) -> tuple[Floats, float]:
    """Turn AR(1) noise in `columns` [blocks, n] into white noise of the variance of its shocks.

    Returns the columns and the log determinant of the covariance that was divided out.
    """
    kept = correlation ** np.diff(at)
    variance = (1 - kept**2) / (1 - correlation**2)
    scale = 1 / np.sqrt(variance)
    white = np.empty_like(columns)
    white[0] = columns[0] * np.sqrt(1 - correlation**2)
    white[1:] = (columns[1:] - kept[:, None] * columns[:-1]) * scale[:, None]
    return white, float(np.log(variance).sum() - np.log(1 - correlation**2))


@dataclass(frozen=True)
class Fit:
    """Each series fitted by each shape in turn, beside the base columns. Arrays have the shape [series, shapes]."""

    size: Floats
    """The coefficient of the shape."""
    error: Floats
    """Its standard error."""
    likelihood: Floats
    """The log likelihood, maximal over correlations, up to a constant of the series."""
    correlation: Floats
    """The correlation of neighbouring blocks, by restricted maximum likelihood."""


def fit(at: Floats, base: Floats, shapes: Floats, series: Floats) -> Fit:
    """Fit `series` [blocks, series] by `base` [blocks, k] and one column of `shapes` [blocks, shapes] at a time."""
    n, k = base.shape
    free = n - k - 1
    found = [np.full((series.shape[1], shapes.shape[1]), -np.inf) for _ in range(2)]
    restricted, likelihood = found
    size, error, correlation = (np.zeros_like(restricted) for _ in range(3))
    tiny = 1e-24 * max(float(np.square(series).sum()), 1e-300)
    for each in CORRELATIONS:
        white, log_det = whiten(float(each), at, np.hstack([base, shapes, series]))
        q, r = np.linalg.qr(white[:, :k])
        rest = white[:, k:] - q @ (q.T @ white[:, k:])
        columns, values = rest[:, : shapes.shape[1]], rest[:, shapes.shape[1] :]
        squares = np.square(columns).sum(axis=0) + 1e-300
        sizes = (values.T @ columns) / squares
        left = np.maximum(np.square(values).sum(axis=0)[:, None] - sizes**2 * squares, tiny)
        log_x = 2 * np.log(np.abs(np.diag(r)) + 1e-300).sum() + np.log(squares)
        here = -0.5 * (free * np.log(left / free) + log_det + log_x)
        better = here > restricted
        restricted = np.where(better, here, restricted)
        size, correlation = np.where(better, sizes, size), np.where(better, each, correlation)
        error = np.where(better, np.sqrt(left / free / squares), error)
        likelihood = np.maximum(likelihood, -0.5 * (n * np.log(left / n) + log_det))
    return Fit(size, error, likelihood, correlation)


def low_frequency(
    at: Floats, levels: Floats, line: Floats, series: Floats, modes: int = MODES
) -> tuple[Floats, Floats, int]:
    """The coefficient of `line` [blocks] in each of `series` [blocks, series], its error, and its degrees of freedom.

    `levels` [blocks, k] are further columns that vary slowly, such as the level behind a restart. Each takes two modes
    beside `modes`.
    """
    n, k = len(at), levels.shape[1]
    middle = (at - at[0] + 0.5) / (at[-1] - at[0] + 1)
    waves = np.cos(np.pi * np.outer(np.arange(1, modes + 2 * k + 1), middle)) / n
    waves -= waves.mean(axis=1, keepdims=True)
    columns = waves @ np.column_stack([line, levels])
    values = waves @ series
    inverse = np.linalg.pinv(columns.T @ columns)
    sizes = inverse @ (columns.T @ values)
    free = len(waves) - k - 1
    left = np.square(values - columns @ sizes).sum(axis=0)
    return sizes[0], np.sqrt(left / free * inverse[0, 0]), free
