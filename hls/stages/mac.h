// Dot products of a beat with a pass's query heads, and their sums over rows longer than a beat.
#pragma once

#include <hls_stream.h>

#include "../datapath/dot.h"

namespace nearkv {

// A beat of short rows holds several tokens; two of them leave per cycle, in slots 0 and 1. Rows of
// 16 bytes take two phases per beat; rows of a beat or more fill slot 0 once they are complete.
inline void mac(const Shape shape, const QueryLanes& query, hls::stream<Beat>& payload,
                hls::stream<Dots>& dots) {
  const bool int4 = shape.bits == 4;
  const uint32_t row_bytes = shape.row_bytes(), chunks = shape.chunks(), phases = shape.phases();
  const uint64_t total = uint64_t(shape.blocks) * shape.payload_beats() * phases * shape.passes();
  KeyLanes key = {};
#pragma HLS ARRAY_PARTITION variable = key.even complete
#pragma HLS ARRAY_PARTITION variable = key.odd complete
  Dot partial[kMaxPasses][kHeads];
#pragma HLS ARRAY_PARTITION variable = partial complete dim = 0
  uint32_t pass = 0, phase = 0, chunk = 0;
  for (uint64_t i = 0; i < total; ++i) {
#pragma HLS PIPELINE II = 1
    if (pass == 0 && phase == 0) key = unpack(payload.read(), int4);
    Dots out = {};
    for (int h = 0; h < kHeads; ++h) {
#pragma HLS UNROLL
      if (pass * kHeads + h >= shape.group) continue;  // no such head: leave its multipliers still
      const HeadLanes& q = query.head[pass][chunk][h];
      QuarterSum quarter[kQuarters];
      for (int i = 0; i < kQuarters; ++i) {
#pragma HLS UNROLL
        const int at = i * kQuarterLanes;
        quarter[i] = dot16(&q.even[at], &q.odd[at], &key.even[at], &key.odd[at]);
      }
      const RowDots head =
          row_dots(quarter, chunk == 0 ? Dot(0) : partial[pass][h], row_bytes, phase);
      partial[pass][h] = head.row;
      for (int slot = 0; slot < kSlots; ++slot) {
#pragma HLS UNROLL
        out.slot[slot][h] = head.slot[slot];
      }
    }
    if (chunk + 1 == chunks) dots.write(out);
    if (++pass == shape.passes()) {
      pass = 0;
      if (++phase == phases) {
        phase = 0;
        if (++chunk == chunks) chunk = 0;
      }
    }
  }
}

}  // namespace nearkv
