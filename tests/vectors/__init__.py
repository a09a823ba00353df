"""Golden vectors of the score contract, version 1; README.md documents the files."""

from vectors.loader import EncodeVector, ScoreVector, encode_vectors, load_encode, load_score, score_vectors

__all__ = ["EncodeVector", "ScoreVector", "encode_vectors", "load_encode", "load_score", "score_vectors"]
