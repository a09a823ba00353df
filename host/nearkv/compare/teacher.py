"""Teacher-forced decode: the same target tokens through any cache, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from nearkv.compare.queries import Captured, captured_queries
from nearkv.session import Progress, Session


@dataclass
class TeacherForced:
    """``nll`` in nats and ``top1`` of every target; ``queries`` of the sampled steps with the tokens each attended."""

    nll: list[float] = field(default_factory=list)
    top1: list[int] = field(default_factory=list)
    queries: list[tuple[int, Captured]] = field(default_factory=list)


def force(
    session: Session, targets: Sequence[int], sampled: frozenset[int] = frozenset(), progress: Progress = lambda _: None
) -> TeacherForced:
    """Decode ``targets`` after a prefill; ``sampled`` are the steps whose queries are kept."""
    result = TeacherForced()
    assert session.logits is not None, "prefill first"
    logits = session.logits
    for number, target in enumerate(targets):
        result.nll.append(-float(torch.log_softmax(logits, dim=-1)[target]))
        result.top1.append(int(logits.argmax()))
        if number + 1 == len(targets):
            break
        with captured_queries(session.model) if number in sampled else nullcontext() as captured:
            logits = session.step(target)
        if captured is not None:
            result.queries.append((session.cache.get_seq_length(), captured))
        progress(1)
    return result
