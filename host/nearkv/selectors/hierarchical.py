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
        means, most = self._arrays["rows"], int(counts.max())
        clusters = np.array([math.isqrt(n) for n in self._arrays["clustered"][streams, 0, 0].tolist()], np.int64)
        score = summary.products(self._arrays["centroids"], streams, clusters, queries)
        exists = np.arange(score.shape[2]) < clusters[:, None]
        order = np.argsort(np.where(exists[:, None], -score, np.inf), axis=2, kind="stable")
        rank = np.argsort(order, axis=2, kind="stable")
        label = self._arrays["label"][streams, :most, 0].astype(np.int64)[:, None]
        open_cluster = rank < np.ceil(clusters * OPENED)[:, None, None]
        opened = np.take_along_axis(open_cluster, label, axis=2) & (np.arange(most) < counts[:, None, None])
        estimate = np.take_along_axis(score, label, axis=2)
        read = 0
        for at, stream in enumerate(streams.tolist()):
            members = np.flatnonzero(opened[at].any(axis=0))
            rows, count = means[stream, members][None], np.array([len(members)])
            fine = summary.products(rows, np.zeros(1, np.int64), count, queries[at : at + 1])[0]
            estimate[at][:, members] = np.where(opened[at][:, members], fine, estimate[at][:, members])
            read += len(members)
        row_bytes = means.shape[2] * means.itemsize
        total = (read + int(clusters.sum())) * row_bytes + int(counts.sum()) * self._arrays["label"].itemsize
        return Estimate(estimate + LOG_TOKENS, total)
