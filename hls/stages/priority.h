// The priority of every block, from the stored log-masses and the totals: mode TOPK's second phase.
#pragma once

#include "../datapath/priority.h"
#include "fold.h"
#include "keep_best.h"

namespace nearkv {

// A block without tokens ranks as 0, which no block with tokens does.
inline void priority(const Shape shape, const MassRow store[kStoreRows],
                     const int32_t total[kMaxGroup], hls::stream<Rank>& ranks) {
  uint32_t pass = 0, block = 0;
  Priority before = 0;
  for (uint32_t row = 0; row < shape.blocks * shape.passes(); ++row) {
#pragma HLS PIPELINE II = 1
    const MassRow masses = store[row];
    const uint32_t first = pass * kHeads;
    int32_t of_pass[kHeads];
#pragma HLS ARRAY_PARTITION variable = of_pass complete
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      of_pass[h] = total[first + h];
    }
    const Priority sum =
        shares_of(masses.value, of_pass, shape.group - first, pass == 0 ? Priority(0) : before);
    before = sum;
    if (++pass == shape.passes()) {
      pass = 0;
      ranks.write(masses.value[0] == kEmpty ? Rank(0) : rank_of(uint32_t(sum), block));
      ++block;
    }
  }
}

}  // namespace nearkv
