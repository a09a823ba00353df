// Names the first thing that is wrong with a request (docs/kernel-interface.md, status codes).
#pragma once

#include "../records.h"

namespace nearkv {

inline Status check_record(const Request& r) {
#pragma HLS INLINE
  const Shape& s = r.shape;
  if (s.bits != 4 && s.bits != 8) return kBits;
  if (s.width != 1 && s.width != 2 && s.width != 4 && s.width != 8) return kWidth;
  if (s.group == 0 || s.group > kMaxGroup) return kGroup;
  if (r.mode != kMass && r.mode != kTopK) return kMode;
  if (r.mode == kTopK && (r.k == 0 || r.k > kMaxTopK)) return kTopKRange;
  if (s.blocks == 0 || s.blocks > kStoreRows / s.passes()) return kBlocks;
  if (r.runs == 0 || r.runs > s.blocks) return kRuns;
  if (!aligned(r.query) || !aligned(r.descriptors) || !aligned(r.result) || r.result == 0)
    return kAddress;
  return kOk;
}

// Reads every descriptor's first beat before anything streams, so that a wrong one starts nothing;
// the first wrong descriptor decides.
inline Status check_runs(const Request& r, const MemoryWord* commands) {
  const uint64_t first = beats_of(r.descriptors);
  uint32_t left = r.shape.blocks;
  Status status = kOk;
  for (uint32_t i = 0; i < r.runs; ++i) {
#pragma HLS PIPELINE II = 2
    const Beat low = load(commands[first + 2 * uint64_t(i)]);
    const uint32_t blocks = word32(low, 2);
    const bool last = i + 1 == r.runs;
    const bool wrong_sum = blocks == 0 || blocks > left || (last && blocks != left);
    if (status == kOk && wrong_sum) status = kRuns;
    if (status == kOk && !aligned(low.word[0])) status = kAddress;
    left -= blocks;
  }
  return status;
}

}  // namespace nearkv
