"""Lloyd's algorithm on a stream's block means: small, deterministic, and enough for a few thousand points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray


def k_means(points: FloatArray, count: int, rounds: int = 8) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Centroids float32 [count, d] and the cluster of every point [n] (n >= count >= 1).

    Starts from evenly spaced points (the blocks of a stream drift, so these are spread) and keeps a centroid that
    lost all its points where it is.
    """
    centroids = points[np.linspace(0, len(points) - 1, count).astype(int)].copy()
    label = nearest(points, centroids)
    for _ in range(rounds):
        member = (np.arange(count)[:, None] == label).astype(np.float32)
        size = member.sum(axis=1, keepdims=True)
        centroids = np.where(size > 0, member @ points / np.maximum(size, 1), centroids)
        moved = nearest(points, centroids)
        if (moved == label).all():
            break
        label = moved
    return centroids, label


def nearest(points: FloatArray, centroids: FloatArray) -> npt.NDArray[np.int64]:
    """The centroid [count, d] that is nearest to every point [n, d]: int64 [n], ties to the lower."""
    distance = np.square(centroids).sum(axis=1) - 2 * points @ centroids.T
    return np.asarray(distance.argmin(axis=1), np.int64)
