// Integer dot products of a pass's query heads with 64 key values per cycle.
#pragma once

#include <hls_stream.h>

#include "../datapath/dot.h"

namespace nearkv {

// The 64 key values of an INT8 beat, or of the lower or upper half of an INT4 beat.
inline void unpack(const Beat& beat, uint8_t bits, bool upper, int8_t lane[kLanes]) {
#pragma HLS INLINE
  for (int i = 0; i < kLanes; ++i) {
#pragma HLS UNROLL
    const int8_t wide = int8_t(beat.word[i / 8] >> (8 * (i % 8)));
    const uint64_t half = upper ? beat.word[kBeatWords / 2 + i / 16] : beat.word[i / 16];
    const int8_t narrow = int8_t(uint8_t(half >> (4 * (i % 16))) << 4) >> 4;
    lane[i] = bits == 8 ? wide : narrow;
  }
}

inline void dot(const Shape shape, const QueryLanes& query, hls::stream<Beat>& payload,
                hls::stream<SliceSums>& sums) {
  const uint64_t total = uint64_t(shape.blocks) * shape.slices() * shape.passes();
  const bool halves = shape.bits == 4;
  Beat beat = {};
  bool upper = false;
  uint32_t pass = 0, slice = 0;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    if (pass == 0 && !upper) beat = payload.read();
    int8_t lane[kLanes];
#pragma HLS ARRAY_PARTITION variable = lane complete
    unpack(beat, shape.bits, upper, lane);
    SliceSums out;
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      for (int g = 0; g < kSliceGroups; ++g) {
#pragma HLS UNROLL
        out.sum[h][g] = dot32(&query.lane[pass][slice][h][g * kGroupLanes], &lane[g * kGroupLanes]);
      }
    }
    sums.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      upper = halves && !upper;
      if (++slice == shape.row_slices()) slice = 0;
    }
  }
}

}  // namespace nearkv
