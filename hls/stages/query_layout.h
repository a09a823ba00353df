// Spreads query rows over the byte lanes the way key rows lie in a beat.
#pragma once

#include "../records.h"

namespace nearkv {

// Reads T0 and the queries. Rows shorter than a beat repeat over the lanes; in INT4 a byte lane
// holds two neighbouring values, so that rows of 128 and more fill half the lanes with each of
// their beats.
inline void query_layout(const Request& request, const MemoryWord* commands,
                         int32_t initial[kMaxGroup], QueryLanes& query) {
  const Shape& shape = request.shape;
  const uint64_t first = beats_of(request.query);
  const Beat totals = load(commands[first]);
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    initial[h] = h < shape.group ? int32_t(word32(totals, h)) : kEmpty;
  }
  const bool int4 = shape.bits == 4;
  const bool halves = int4 && shape.width >= 4;
  const uint32_t parts = shape.query_beats();
  uint32_t head = 0, part = 0;
  for (uint32_t i = 0; i < shape.passes() * kHeads * parts; ++i) {
#pragma HLS PIPELINE II = 1
    Beat beat = {};  // heads beyond G are zero
    if (head < shape.group) beat = load(commands[first + 1 + i]);
    const uint32_t chunk = halves ? part / 2 : part;
    HeadLanes& lanes = query.head[head / kHeads][chunk][head % kHeads];
    for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS UNROLL
      const int pair = 2 * (shape.width == 1 ? lane % 16 : lane % 32);
      const int single = shape.width == 1 ? lane % 32 : lane;
      if (!halves || lane / 32 == int(part % 2)) {
        lanes.even[lane] = byte_of(beat, int4 ? pair : single);
        lanes.odd[lane] = int4 ? byte_of(beat, pair + 1) : int8_t(0);
      }
    }
    if (++part == parts) {
      part = 0;
      ++head;
    }
  }
}

}  // namespace nearkv
