"""One prompt through one cache: chunked prefill, then greedy or teacher-forced decode, each step timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from transformers import Cache, PreTrainedModel

from nearkv.cache.tiered import TieredCache

PREFILL_CHUNK = 1024
"""Tokens per forward pass of a prefill."""

Progress = Callable[[int], None]
"""Called with the number of tokens that were just processed."""


@dataclass
class Session:
    """A ``model`` and a ``cache`` (empty at the start) for one sequence. Logits are those of the next token."""

    model: PreTrainedModel
    cache: Cache
    logits: torch.Tensor | None = None
    prefill_seconds: float = 0.0
    step_seconds: list[float] = field(default_factory=list)

    def prefill(self, tokens: torch.Tensor, progress: Progress = lambda _: None) -> None:
        """Run ``tokens`` [n] (n >= 1) through the model."""
        start = time.perf_counter()
        for chunk in _chunks(tokens):
            self._forward(chunk)
            progress(len(chunk))
        if isinstance(self.cache, TieredCache):
            self.cache.warm_up()
        self.prefill_seconds += time.perf_counter() - start

    def step(self, token: int) -> torch.Tensor:
        """Feed one token; returns the logits [vocabulary] of the next."""
        start = time.perf_counter()
        logits = self._forward(torch.tensor([token]))
        self.step_seconds.append(time.perf_counter() - start)
        return logits

    def greedy(self, limit: int, stop: Sequence[int], progress: Progress = lambda _: None) -> list[int]:
        """Decode greedily until a token of ``stop`` or ``limit`` tokens; the stop token is not among them."""
        assert self.logits is not None, "prefill first"
        answer: list[int] = []
        while len(answer) < limit:
            token = int(self.logits.argmax())
            if token in stop:
                break
            answer.append(token)
            progress(1)
            if len(answer) < limit:
                self.step(token)
        return answer

    @property
    def tokens_per_second(self) -> float:
        """Decode speed over all steps so far; 0 before the first."""
        return len(self.step_seconds) / sum(self.step_seconds) if self.step_seconds else 0.0

    def _forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            out = self.model(
                input_ids=tokens[None].to(self.model.device), cache=self.cache, use_cache=True, logits_to_keep=1
            )
        self.logits = out.logits[0, -1].float()
        return self.logits


def _chunks(tokens: torch.Tensor) -> list[torch.Tensor]:
    """Chunks of PREFILL_CHUNK tokens; the last is never a single token, which would be a decode step."""
    chunks = list(tokens.split(PREFILL_CHUNK))
    if len(chunks) > 1 and len(chunks[-1]) == 1:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


def stop_tokens(model: PreTrainedModel) -> list[int]:
    """Token ids that end an answer."""
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    if ends is None:
        ends = model.config.eos_token_id
    return [] if ends is None else list(ends) if isinstance(ends, list) else [ends]
