"""KVDrive's hierarchical index: block means in clusters; only the best clusters' members are looked at."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.clusters import k_means, nearest
from nearkv.selectors.linear import LOG_TOKENS
from nearkv.selectors.mean_key import MeanKey
from nearkv.selectors.summaries import Estimate, Field, IntArray, per_block, per_stream, summarises
from nearkv_drivers import summary

OPENED = 0.5
"""Share of the clusters whose members are scored one by one."""

RECLUSTER = 1.25
"""A stream is clustered anew when it has grown by this factor since the last time."""


@summarises("hierarchical")
class Hierarchical(MeanKey):
    """√blocks clusters of block means. A query reads all centroids, and the means in the clusters it scores highest.

    A new block joins the nearest centroid, which moves to the mean of its members; when the stream has grown by a
    quarter its means are clustered anew, so that the number of clusters follows and a drift leaves no stale ones.
    """

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable; ``clustered`` is the number of blocks at the last clustering."""
        return super().fields(head_dim, values) | {
            "centroids": Field(math.isqrt, head_dim, values),
            "label": Field(per_block, 1, np.uint16),
            "clustered": Field(per_stream, 1, np.int64),
        }

    @classmethod
    def query_bytes(cls, head_dim: int, blocks: int) -> int:
        """See SummaryTable: the centroids, the labels and, on average, the opened share of the means."""
        clusters = math.isqrt(blocks)
        means = MeanKey.stream_bytes(head_dim, blocks) * math.ceil(clusters * OPENED) // clusters
        return means + sum(cls.fields(head_dim, np.float16)[name].nbytes(blocks) for name in ("centroids", "label"))

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        super()._keep(stream, first, keys)
        means = self._arrays["rows"][stream, : first + len(keys)].astype(np.float32)
        centroids, label = self._arrays["centroids"][stream], self._arrays["label"][stream, : len(means), 0]
        clustered = self._arrays["clustered"][stream, 0]
        clusters = math.isqrt(int(clustered[0]))
        if len(means) >= RECLUSTER * int(clustered[0]):
            clusters, clustered[0] = math.isqrt(len(means)), len(means)
            centroids[:clusters], label[:] = k_means(means, clusters)
            return
        label[first:] = nearest(means[first:], centroids[:clusters].astype(np.float32))
        for cluster in np.unique(label[first:]).tolist():
            centroids[cluster] = means[label == cluster].mean(axis=0)

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        """The mean key's estimate in the opened clusters, the centroid's for members of the others."""
        means, labels = self._arrays["rows"], self._arrays["label"][..., 0]
        clusters = np.array([math.isqrt(n) for n in self._arrays["clustered"][streams, 0, 0].tolist()], np.int64)
        scores = summary.products(self._arrays["centroids"], streams, clusters, queries)
        log_mass = np.zeros((*queries.shape[:2], int(counts.max())), np.float32)
        rows_read = int(clusters.sum())
        for at, (stream, count) in enumerate(zip(streams.tolist(), counts.tolist(), strict=True)):
            score, label = scores[at, :, : clusters[at]], labels[stream, :count]
            opened = _opened(score)[:, label]
            members = np.flatnonzero(opened.any(axis=0))
            rows, number = means[stream, members][None], np.array([len(members)])
            fine = summary.products(rows, np.zeros(1, np.int64), number, queries[at : at + 1])[0]
            log_mass[at, :, :count] = score[:, label]
            log_mass[at, :, :count][opened] = fine[opened[:, members]]
            rows_read += len(members)
        read = rows_read * means.shape[2] * means.itemsize + int(counts.sum()) * labels.itemsize
        return Estimate(log_mass + LOG_TOKENS, read)


def _opened(score: FloatArray) -> npt.NDArray[np.bool_]:
    """Which clusters each head opens, by their ``score`` [G, clusters]."""
    heads, clusters = score.shape
    order = np.argsort(-score, axis=1, kind="stable")[:, : math.ceil(clusters * OPENED)]
    opened = np.zeros((heads, clusters), bool)
    opened[np.arange(heads)[:, None], order] = True
    return opened
