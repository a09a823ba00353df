// The k blocks of highest priority, in a binary heap whose root is the worst of them.
#pragma once

#include <hls_stream.h>

#include "../types.h"

namespace nearkv {

// Ranks compare as numbers: the higher priority first, then the lower position. 0 is no block.
typedef UInt<64> Rank;

inline Rank rank_of(uint32_t priority, uint32_t position) {
#pragma HLS INLINE
  return (uint64_t(priority) << 32) | uint32_t(~position);
}
inline uint32_t priority_of(Rank rank) { return uint32_t(uint64_t(rank) >> 32); }
inline uint32_t position_of(Rank rank) { return ~uint32_t(uint64_t(rank)); }

// Puts `rank` where the root of heap[0..size) was and lets it sink below its smaller children.
inline void sink(Rank heap[kMaxTopK], uint32_t size, Rank rank) {
  uint32_t at = 0;
  for (uint32_t child = 1; child < size; child = 2 * at + 1) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 11
    const Rank left = heap[child];
    const Rank right = child + 1 < size ? heap[child + 1] : Rank(~0ull);
    const Rank smaller = right < left ? right : left;
    if (!(smaller < rank)) break;
    heap[at] = smaller;
    at = right < left ? child + 1 : child;
  }
  heap[at] = rank;
}

// Reads `blocks` ranks, keeps the k highest in `heap` and leaves them there in descending order.
// Returns how many there are. Most ranks lose against the root and take one cycle.
inline uint32_t keep_best(uint32_t blocks, uint32_t k, hls::stream<Rank>& ranks,
                          Rank heap[kMaxTopK]) {
  for (uint32_t i = 0; i < k; ++i) {
#pragma HLS PIPELINE II = 1
    heap[i] = Rank(0);
  }
  uint32_t kept = 0;
  Rank root = 0;
  uint32_t seen = 0;
  while (seen < blocks) {
    Rank rank = 0;
    for (; seen < blocks && !(root < rank); ++seen) {
#pragma HLS PIPELINE II = 1
      rank = ranks.read();
    }
    if (root < rank) {
      sink(heap, k, rank);
      root = heap[0];
      if (kept < k) ++kept;
    }
  }
  for (uint32_t size = k; size > 1; --size) {  // move the worst to the end: descending order
    const Rank worst = heap[0], last = heap[size - 1];
    sink(heap, size - 1, last);
    heap[size - 1] = worst;
  }
  return kept;
}

}  // namespace nearkv
