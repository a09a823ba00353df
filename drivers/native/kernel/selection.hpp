// The blocks that the streams of one sequence attend, out of a budget that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

// What a stream may attend: blocks by rank, best first. A stream that is not ranked attends its
// first `count` blocks, before all ranked ones.
struct RankedBlocks {
  const uint32_t* positions;   // [count], null where not ranked
  const uint32_t* priorities;  // [count]
  size_t count;
};

struct ChosenBlock {
  size_t stream;
  int32_t position;
  uint32_t priority;  // the highest there is where the stream is not ranked
};

// The `room` blocks of highest priority (of equals, the first stream's better ranked) at positions
// from `sinks` on, by stream and rank.
std::vector<ChosenBlock> share_budget(const std::vector<RankedBlocks>& streams, size_t room,
                                      uint32_t sinks);

}  // namespace nearkv
