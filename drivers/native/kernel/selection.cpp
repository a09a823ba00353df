#include "selection.hpp"

#include <algorithm>
#include <limits>

namespace nearkv {
namespace {

constexpr uint64_t kUnranked = uint64_t{1} << 32;

struct Candidate {
  uint64_t priority;
  size_t order;
  size_t stream;
  uint32_t position;
};

std::vector<Candidate> candidates_of(const std::vector<RankedBlocks>& streams, uint32_t sinks) {
  std::vector<Candidate> candidates;
  for (size_t s = 0; s < streams.size(); ++s) {
    const RankedBlocks& ranked = streams[s];
    for (size_t i = 0; i < ranked.count; ++i) {
      const uint32_t position = ranked.positions ? ranked.positions[i] : static_cast<uint32_t>(i);
      if (position < sinks) continue;
      const uint64_t priority = ranked.positions ? ranked.priorities[i] : kUnranked;
      candidates.push_back({priority, candidates.size(), s, position});
    }
  }
  return candidates;
}

}  // namespace

std::vector<ChosenBlock> share_budget(const std::vector<RankedBlocks>& streams, size_t room,
                                      uint32_t sinks) {
  std::vector<Candidate> candidates = candidates_of(streams, sinks);
  if (room < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(room),
                     candidates.end(), [](const Candidate& a, const Candidate& b) {
                       return a.priority != b.priority ? a.priority > b.priority
                                                       : a.order < b.order;
                     });
    candidates.resize(room);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  }
  std::vector<ChosenBlock> chosen;
  chosen.reserve(candidates.size());
  const uint64_t most = std::numeric_limits<uint32_t>::max();
  for (const Candidate& each : candidates)
    chosen.push_back({each.stream, static_cast<int32_t>(each.position),
                      static_cast<uint32_t>(std::min(each.priority, most))});
  return chosen;
}

}  // namespace nearkv
