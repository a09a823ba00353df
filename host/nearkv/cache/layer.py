"""One tiered attention layer: prefill dense and exact, decode over sink, recent and selected blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.cache.attend import Queries, decode_attention
from nearkv.cache.buffers import BlockBuffer, aligned_blocks
from nearkv.cache.drive_order import drive_order
from nearkv.cache.geometry import Geometry
from nearkv.cache.observation import DecodeStep, PromptEnd, prompt_selections, show_prompt, show_step
from nearkv.cache.padding import left_padding, realign
from nearkv.cache.placement import PromptQueries, newest_placement, prompt_block_shares, prompt_placement
from nearkv.cache.pool import LayerPool, Plan
from nearkv.cache.runtime import Runtime
from nearkv.cache.scoring import Question
from nearkv.cache.selection import MOST_OF_ONE_HEAD, select
from nearkv.cache.store import LayerStore
from nearkv.cache.tail import StreamWindows, Tail
from nearkv.errors import UnsupportedError
from nearkv.tiers.layout import POSITION
from nearkv_drivers.wire import BLOCK_TOKENS


class TieredLayer(CacheLayerMixin):
    """The KV of one layer across DRAM and drive.

    ``update`` only remembers the new tokens and hands itself to the attention function as key and value; the work
    happens in :meth:`attend`, where the query and the mask are known.
    """

    is_sliding = False

    def __init__(self, layer: int, runtime: Runtime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layer = layer
        self._runtime = runtime
        self._length = 0
        self._new: tuple[torch.Tensor, torch.Tensor] | None = None
        self._prompt: PromptQueries | None = None
        self._prompt_shares: npt.NDArray[np.float32] | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Fix the geometry from the first tokens (``key_states`` [batch, kv_heads, n, head_dim])."""
        if key_states.shape != value_states.shape:
            raise UnsupportedError(
                f"layer {self.layer}: keys {list(key_states.shape)} and values {list(value_states.shape)} differ in "
                "shape (multi-head latent attention is not supported)"
            )
        self.dtype, self.device = key_states.dtype, key_states.device
        self.geometry: Geometry = self._runtime.geometry(key_states)
        self.store: LayerStore = self._runtime.store(self.layer, self.geometry)
        self.tail = Tail(self.geometry, self._runtime.config.recent_blocks, key_states.device)
        self.pool: LayerPool = self._runtime.pool(self.layer, self.geometry, self.tail.streams)
        self.scorer = self._runtime.scorer(self.layer, self.geometry, self.store)
        self._attention = decode_attention(self.geometry, self.tail, self._runtime.stats, key_states.device)
        self.padding: list[int] | None = None
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Remember the new tokens [batch, kv_heads, n, head_dim]; returns this layer twice, for :meth:`attend`."""
        if self._new is not None:
            raise UnsupportedError(
                f"layer {self.layer}: the model's attention did not go through nearkv; call nearkv.attach(model) first"
            )
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self._check_shape(key_states)
        self._new = key_states, value_states
        self._length += key_states.shape[2]
        return self, self

    def _check_shape(self, keys: torch.Tensor) -> None:
        """Raise UnsupportedError for tokens of another batch or model than those that the cache holds."""
        g, (batch, kv_heads, _, head_dim) = self.geometry, keys.shape
        if (batch, kv_heads, head_dim, keys.dtype) != (g.batch, g.kv_heads, g.head_dim, g.dtype):
            raise UnsupportedError(
                f"layer {self.layer}: the cache holds {g.batch} sequence(s) of {g.kv_heads} KV heads of size "
                f"{g.head_dim} in {g.dtype}, now come {batch} of {kv_heads} of size {head_dim} in {keys.dtype}: "
                "make a new cache for a new batch or model"
            )

    def attend(
        self, module: torch.nn.Module, query: torch.Tensor, mask: torch.Tensor | None, scale: float
    ) -> torch.Tensor:
        """Attention output [batch, n, heads, head_dim] for ``query`` [batch, heads, n, head_dim].

        ``module`` is the model's attention module; ``mask`` is what the mask function made: None (causal) or bool
        [batch, 1, n, length]. More than one query, or the first, is prefill: dense and exact.
        """
        if self._new is None:
            raise UnsupportedError(f"layer {self.layer}: attention was called twice for one update")
        (keys, values), self._new = self._new, None
        if self.padding is None or query.shape[2] > 1:
            return self._prefill(module, query, keys, values, mask, scale)
        self._runtime.release_staging()
        try:
            if self._prompt is not None:
                self._runtime.warm_up()
        finally:  # a failed read does not lose the token
            self._append(keys, values)
        return self._decode(query, scale)

    # --- prefill -----------------------------------------------------------------------------------------------

    def _prefill(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
        scale: float,
    ) -> torch.Tensor:
        """Dense attention over everything, then seal what is complete."""
        padding = left_padding(mask, self.geometry.batch, self._length, self.padding)
        self.padding = padding
        past = self._length - keys.shape[2]
        staging = self._stage(keys, values)
        if past:
            keys, values = (part.to(self.device) for part in staging.keys_values(self._length))
            mask = realign(mask, padding)
        output, _ = sdpa_attention_forward(module, query, keys, values, mask, scaling=scale)
        if self._prompt is None:
            self._prompt = PromptQueries()
        self._prompt.keep(query, scale)
        self._seal(staging)
        return output

    def load(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Take over ``keys`` and ``values`` [batch, kv_heads, n, head_dim] that were computed elsewhere, unpadded.

        They are stored as a prefill would store them; nothing is attended.
        """
        self.update(keys, values)
        self._new, self.padding = None, self.padding or [0] * self.geometry.batch
        self._prompt = PromptQueries()
        self._seal(self._stage(keys, values))

    def _stage(self, keys: torch.Tensor, values: torch.Tensor) -> BlockBuffer:
        """One layer's full KV in memory: what the drive and the tail hold, and the new tokens behind it."""
        g, past = self.geometry, self._length - keys.shape[2]
        assert self.padding is not None
        staging = self._runtime.staging(g, self.store, -(-self._length // BLOCK_TOKENS), self.device)
        if past:
            self.store.read_all(staging)
        for sequence, padding in enumerate(self.padding):
            if past:
                staging.put(sequence, self.tail.start[sequence], self.tail.window(sequence))
            skip = max(padding - past, 0)
            pairs = torch.stack([keys[sequence, :, skip:], values[sequence, :, skip:]], dim=2)
            staging.put(sequence, max(past - padding, 0), pairs)
        return staging

    def _seal(self, staging: BlockBuffer) -> None:
        """Keep the newest tokens, write what is complete."""
        assert self.padding is not None
        for sequence, padding in enumerate(self.padding):
            self.tail.load(sequence, self._length - padding, staging.tokens()[sequence])
        if self.store.cold is not None:
            self._keep_sinks(staging)
        for sequence, padding in enumerate(self.padding):
            streams = self._streams(sequence)
            first, last = int(self.store.sealed[streams[0]]), max(self._length - padding, 0) // BLOCK_TOKENS
            if last > first:
                order = self._drive_order(staging, sequence, range(first, last))
                blocks = staging.bytes[streams.start : streams.stop, first:last]
                self.store.seal(streams, blocks, adopt=False, order=order)

    def _keep_sinks(self, staging: BlockBuffer) -> None:
        """Give sinks that are newest tokens no more to the pool while they are here as they were computed.

        They never leave it, so they are read in full precision ever after.
        """
        newest = self.tail.streams
        self._follow(newest)
        for block in range(self._runtime.config.sink_blocks):
            missing = (newest.first_block > block) & ~(self.pool.resident == block).any(axis=1)
            if missing.any():
                blocks = np.where(missing, block, -1).astype(np.int32)
                self.pool.offer(blocks, np.ascontiguousarray(staging.bytes[:, block : block + 1]))

    def _drive_order(self, staging: BlockBuffer, sequence: int, sealed: range) -> npt.NDArray[np.int64] | None:
        """In which order the blocks to be ``sealed`` should lie on the drive, int64 [kv_heads, n]; None: of position.

        That of position it is, whatever the setting, where there are too few queries to judge by.
        """
        runtime, tokens = self._runtime, self.tail.length[sequence]
        if runtime.config.layout == POSITION or self._prompt is None:
            return None
        queries = self._prompt.last(self.geometry.kv_heads, tokens)
        if queries is None:
            return None
        newest = self.tail.streams.tokens[self._streams(sequence)[:1]]
        return drive_order(
            queries[sequence],
            staging.tokens()[sequence, ..., 0, :],
            tokens,
            sealed,
            scale=self._prompt.scale,
            wanted=int(runtime.selected_blocks(newest)[0]),
            sinks=runtime.config.sink_blocks,
        )

    def look_back(self) -> npt.NDArray[np.int32] | None:
        """After a prefill: let the drive score the prompt's last queries, and show them to the policy.

        Returns what they would have selected, int32 [P, S, n], -1 padded; None where there is nothing to judge by or
        nothing to choose.
        """
        runtime, newest = self._runtime, self.tail.streams
        if self._prompt is None or not runtime.config.warm_up or (newest.first_block <= self.pool.quota).all():
            return None
        queries = self._prompt.take(self.geometry.kv_heads, min(self.tail.length))
        if queries is None:
            return None
        self.store.settle()
        mass = self._attention.tail_mass
        shares = prompt_block_shares(self.scorer, queries, newest, self._prompt.scale, mass)
        group, wanted = queries.shape[2], int(runtime.selected_blocks(newest.tokens).min())
        sinks = runtime.config.sink_blocks
        end = PromptEnd(shares, newest, group, wanted, sinks)
        show_prompt(runtime.policy, self.layer, end)
        for watcher in runtime.watchers:
            watcher.prompt(self.layer, end)
        self._prompt_shares = shares
        return prompt_selections(
            shares, newest.first_block, wanted=wanted, sinks=sinks, kv_heads=self.geometry.kv_heads
        )

    def make_room(self) -> None:
        """Give up slots that the pool may no longer have, before other layers get them."""
        quota = self._runtime.quota(self.layer, self.geometry, self.tail.streams)
        self._runtime.stats.demotions += self.pool.resize(np.minimum(quota, self.pool.quota))

    def fill(self) -> None:
        """Fill the hot pool with what the prompt's last queries attended to, or the newest blocks."""
        if self._prompt is None:
            return
        self._prompt, shares = None, self._prompt_shares
        self._prompt_shares = None
        self.store.settle()
        newest, sinks = self.tail.streams, self._runtime.config.sink_blocks
        quota = self._runtime.quota(self.layer, self.geometry, newest)
        self._runtime.stats.demotions += self.pool.resize(quota)
        if shares is None:
            placement = newest_placement(newest, quota, sinks)
        else:
            placement = prompt_placement(shares, newest, quota, sinks, self._runtime.config.pin_newest)
        self._runtime.stats.warm_blocks += self.pool.fill(placement, self._read)

    # --- decode ------------------------------------------------------------------------------------------------

    def _append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Add one token to every sequence: offer the pool the blocks it pushes out, seal those it completes."""
        g, runtime = self.geometry, self._runtime
        leaving = np.repeat(np.array(self.tail.leaving, np.int32), g.kv_heads)
        any_leaves = bool((leaving >= 0).any())
        if any_leaves:
            # What may be read from the drive from now on was sealed at least 32 tokens ago: waiting costs nothing.
            self.store.settle()
            buffer = runtime.gather(g, 1, self.device)
            buffer.tokens()[:, :, 0] = self.tail.oldest_blocks
        complete = self.tail.append(keys, values)
        newest = self.tail.streams
        runtime.begin_step(self.layer, g, newest)
        self._follow(newest)
        if any_leaves:
            runtime.stats.demotions += self.pool.offer(leaving, buffer.bytes)
        if complete:
            runtime.write_behind(self.store)
        for sequence in complete:
            blocks = aligned_blocks(self.tail.newest_block(sequence), g)
            self.store.seal(self._streams(sequence), blocks[:, None], adopt=True)

    def _follow(self, newest: StreamWindows) -> None:
        """Let the pool have the slots that it may use now."""
        if not self._runtime.quota_moves:
            return
        quota = self._runtime.quota(self.layer, self.geometry, newest)
        if (quota != self.pool.quota).any():
            self._runtime.stats.demotions += self.pool.resize(quota)

    def _decode(self, query: torch.Tensor, scale: float) -> torch.Tensor:
        runtime, g = self._runtime, self.geometry
        stats, sinks = runtime.stats, runtime.config.sink_blocks
        queries = Queries(query.unflatten(1, (g.kv_heads, -1)).squeeze(3))
        newest = self.tail.streams
        wanted = runtime.selected_blocks(newest.tokens)
        with stats.timed("score"):
            results = self._score(queries, newest.first_block, wanted, scale)
            selected, priority = select(results, newest.first_block, wanted, sinks, g.kv_heads)
            runtime.observe(self.layer, selected)
        buffer = runtime.gather(g, selected.shape[1], self.device)
        plan = self.pool.plan(selected)
        with stats.timed("fetch"):
            self._fetch(plan, buffer)
        output = self._attention.attend(queries, plan, self.pool, buffer, scale)
        with stats.timed("admit"):
            step = DecodeStep(results, selected, priority, newest.blocks)
            show_step(runtime.policy, self.layer, step)
            for watcher in runtime.watchers:
                watcher.step(self.layer, step)
            promoted, demoted = self.pool.admit(plan, buffer.bytes)
        stats.promotions += promoted
        stats.demotions += demoted
        return output.flatten(1, 2).unsqueeze(1)

    def _score(
        self, queries: Queries, candidates: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], scale: float
    ) -> list[Any]:
        g = self.geometry
        if (wanted >= candidates).all():
            return [None] * g.streams
        mass = self._attention.tail_mass(queries, scale)
        most = np.minimum(MOST_OF_ONE_HEAD * wanted, self._runtime.device.capabilities.max_top_k)
        results = self.scorer.score(Question(queries.rows, candidates, wanted, most, scale, mass))
        self._runtime.stats.bad_score_blocks += sum(len(result.bad) for result in results if result is not None)
        return results

    def _fetch(self, plan: Plan, buffer: BlockBuffer) -> None:
        """Read the missing blocks to their places in ``buffer`` and check them."""
        stats = self._runtime.stats
        streams, positions = plan.misses
        stats.hits += plan.hits
        stats.misses += len(streams)
        if not len(streams):
            return
        blocks = plan.selected[streams, positions].astype(np.int64)
        stats.reads += self._runtime.fetch(self.store, streams, blocks, buffer.addresses(streams, positions))

    def _read(
        self, streams: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64]
    ) -> None:
        self._runtime.fetch(self.store, streams, blocks, addresses)

    def _streams(self, sequence: int) -> range:
        """The streams of ``sequence``."""
        return range(sequence * self.geometry.kv_heads, (sequence + 1) * self.geometry.kv_heads)

    # --- what transformers asks of a layer ---------------------------------------------------------------------

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(kv length, offset) for the mask function: everything seen, from 0."""
        return self._length + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens seen, padding included."""
        return self._length

    def get_max_length(self) -> int:
        """-1: grows with the drive."""
        return -1

    def reset(self) -> None:
        """Refused: a cache belongs to one prompt."""
        raise UnsupportedError("a TieredCache cannot be reset; make a new one for a new prompt")

    def offload(self) -> None:
        """Nothing to do: tiering is what this layer is for."""

    def prefetch(self) -> None:
        """Nothing to do: tiering is what this layer is for."""

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Refused: beam search would move whole streams on the drive."""
        raise UnsupportedError("beam search is not supported by TieredCache; use greedy decoding or sampling")

    def crop(self, tokens_to_remove: int) -> None:
        """Refused: sealed blocks are written once."""
        raise UnsupportedError("TieredCache cannot be cropped (assisted decoding is not supported)")

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Refused: see :meth:`reorder_cache`."""
        raise UnsupportedError("TieredCache cannot repeat sequences (contrastive or beam search is not supported)")

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Refused: see :meth:`reorder_cache`."""
        raise UnsupportedError("TieredCache cannot select sequences (contrastive or beam search is not supported)")
