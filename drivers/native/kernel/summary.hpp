// A first stage's work on one stream: products of a query's features with rows of block summaries,
// shares of the attention mass from estimates, and the choice of candidates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

// Bits of an IEEE 754 half.
struct Half {
  uint16_t bits;
};

// The product of every row [blocks][width] with every head's features [group][width]: head g's with
// row i goes to out[g * stride + i]. Sums run in single precision.
struct SummaryProducts {
  size_t blocks;
  size_t width;
  const float* features;
  size_t group;
  float* out;
  size_t stride;
};
void summary_products(const uint8_t* rows, const SummaryProducts& task);
void summary_products(const Half* rows, const SummaryProducts& task);
void summary_products(const float* rows, const SummaryProducts& task);

// Estimated log-masses of the blocks, head g's of block i in log_mass[g * stride + i], and of the
// tokens outside them, [group]: natural units, up to a constant of the head.
struct SummaryEstimate {
  const float* log_mass;
  size_t stride;
  size_t blocks;
  const float* outside;
  size_t group;
};

// Mean over the heads of each block's share of the softmax over the blocks and outside: share
// [blocks].
void summary_shares(const SummaryEstimate& estimate, float* share);

// Marks the first `sinks` blocks, and of the others ceil(fraction * number) of the highest share,
// ties to the lower index: chosen [blocks], 0 or 1.
void choose_candidates(const float* share, size_t blocks, double fraction, size_t sinks,
                       uint8_t* chosen);

}  // namespace nearkv
