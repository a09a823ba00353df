// The books of lookahead eviction over one stream: when a block was selected last, and running
// means of the root of its share of the attention, brought up to date when it is reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nearkv {

// A mean loses all but `powers[n]` of itself in n steps; ages from `ages` - 1 on count as that.
struct Decay {
  const float* powers;  // [ages]
  size_t ages;

  float over(int64_t steps) const {
    const auto last = static_cast<int64_t>(ages) - 1;
    return powers[steps < last ? steps : last];
  }
  float rest() const { return 1.0f - powers[1]; }
};

struct LookaheadBooks {
  int64_t* selected;            // [blocks] step of the last selection
  int64_t* seen;                // [blocks] step up to which the means are
  std::array<float*, 2> means;  // [blocks] each
  std::array<Decay, 2> decays;
};

// Moves the means of `blocks` (-1: none) on to `step`, once in a step.
void report(const LookaheadBooks& books, const int32_t* blocks, const uint32_t* priority,
            size_t count, int64_t step);

// Values of `blocks`: bit 62 within the last `window` steps' selections, then the sum of the means
// in units of 2^-20; -1 for none.
void values(const LookaheadBooks& books, const int32_t* blocks, size_t count, int64_t step,
            int64_t window, int64_t* value);

}  // namespace nearkv
