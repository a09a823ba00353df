// A first stage's work on one stream: estimates from rows of one byte per value, and the choice of
// candidates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

// Rows [blocks][width] of a stream, and what the query heads make of them: the estimate of a block
// is the sum over f of features[head][f] * row[f], in natural units of log-mass up to a constant of
// the head; outside is the log-mass of other tokens, less the same constant.
struct SummaryQuery {
  const uint8_t* rows;
  size_t blocks;
  size_t width;
  const float* features;  // [group][width]
  const float* outside;   // [group]
  size_t group;
};

// Mean over the heads of each block's share of the softmax over the blocks and outside: share
// [blocks].
void summary_shares(const SummaryQuery& query, float* share);

// Marks the first `sinks` blocks, and of the others ceil(fraction * number) of the highest share,
// ties to the lower index: chosen [blocks], 0 or 1.
void choose_candidates(const float* share, size_t blocks, double fraction, size_t sinks,
                       uint8_t* chosen);

}  // namespace nearkv
