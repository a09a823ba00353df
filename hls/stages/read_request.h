// Reads and checks a request: its record, its descriptors' shape, and its query.
#pragma once

#include "../records.h"

namespace nearkv {

// The first thing that is wrong with the record itself, in the order of the status codes.
inline Status check_record(const Request& r) {
#pragma HLS INLINE
  const Shape& s = r.shape;
  if (s.bits != 4 && s.bits != 8) return kBits;
  if (s.width != 1 && s.width != 2 && s.width != 4 && s.width != 8) return kWidth;
  if (s.group == 0 || s.group > kMaxGroup) return kGroup;
  if (r.mode != kMass && r.mode != kTopK) return kMode;
  if (r.mode == kTopK && (r.k == 0 || r.k > kMaxTopK)) return kTopKRange;
  if (s.blocks == 0 || s.blocks > kStoreRows / s.passes()) return kBlocks;
  if (r.runs == 0) return kRuns;
  if (!aligned(r.query) || !aligned(r.descriptors) || !aligned(r.result) || r.result == 0)
    return kAddress;
  return kOk;
}

// Reads every descriptor's first beat before anything streams, so that a wrong one starts nothing.
inline Status check_runs(const Request& r, const MemoryWord* commands) {
  const uint64_t first = beats_of(r.descriptors);
  uint64_t blocks = 0;
  bool empty = false, misaligned = false;
  for (uint32_t i = 0; i < r.runs; ++i) {
#pragma HLS PIPELINE II = 2
    const Beat low = load(commands[first + 2 * uint64_t(i)]);
    empty |= word32(low, 2) == 0;
    misaligned |= !aligned(low.word[0]);
    blocks += word32(low, 2);
  }
  if (empty || blocks != r.shape.blocks) return kRuns;
  return misaligned ? kAddress : kOk;
}

// Spreads the query rows over the lanes; a row of 32 fills both halves, one for each of two tokens.
inline void read_query(const Request& r, const MemoryWord* commands, int32_t initial[kMaxGroup],
                       QueryLanes& query) {
  const uint64_t first = beats_of(r.query);
  const Beat totals = load(commands[first]);
  for (int h = 0; h < kMaxGroup; ++h) {
#pragma HLS UNROLL
    initial[h] = h < r.shape.group ? int32_t(word32(totals, h)) : kEmpty;
  }
  const uint32_t slices = r.shape.row_slices();
  uint32_t head = 0, slice = 0;
  for (uint32_t i = 0; i < r.shape.passes() * kHeads * slices; ++i) {
#pragma HLS PIPELINE II = 1
    Beat beat = {};
    if (head < r.shape.group) beat = load(commands[first + 1 + i]);
    for (int lane = 0; lane < kLanes; ++lane) {
#pragma HLS UNROLL
      const int from = r.shape.width == 1 ? lane % kGroupLanes : lane;
      query.lane[head / kHeads][slice][head % kHeads][lane] =
          int8_t(beat.word[from / 8] >> (8 * (from % 8)));
    }
    if (++slice == slices) {
      slice = 0;
      ++head;
    }
  }
}

}  // namespace nearkv
