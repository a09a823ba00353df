#include "pool.hpp"

#include <algorithm>
#include <limits>

namespace nearkv {
namespace {

struct Candidate {
  int64_t value;
  size_t index;
};

bool stays_before(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.index < b.index;
}

// The candidates that there are, those missed only where they were selected.
std::vector<Candidate> candidates_of(const StreamSlots& stream, int32_t pinned) {
  std::vector<Candidate> candidates;
  candidates.reserve(stream.share + stream.count);
  const auto add = [&](int32_t block, size_t index) {
    if (block < 0) return;
    const int64_t highest = std::numeric_limits<int64_t>::max();
    candidates.push_back({block < pinned ? highest : stream.values[index], index});
  };
  for (size_t i = 0; i < stream.share; ++i) add(stream.resident[i], i);
  for (size_t i = 0; i < stream.count; ++i)
    if (stream.slot[i] < 0) add(stream.selected[i], stream.share + i);
  return candidates;
}

}  // namespace

std::vector<Newcomer> admit(const StreamSlots& stream, int32_t pinned) {
  std::vector<Candidate> candidates = candidates_of(stream, pinned);
  if (candidates.size() > stream.share) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(stream.share),
                     candidates.end(), stays_before);
    candidates.resize(stream.share);
  }
  std::vector<bool> kept(stream.share + stream.count, false);
  for (const Candidate& candidate : candidates) kept[candidate.index] = true;
  std::vector<Newcomer> newcomers;
  size_t slot = 0;
  for (size_t i = 0; i < stream.count; ++i) {
    if (!kept[stream.share + i]) continue;
    while (kept[slot]) ++slot;
    if (stream.resident[slot] >= 0) stream.where[stream.resident[slot]] = -1;
    stream.resident[slot] = stream.selected[i];
    stream.where[stream.selected[i]] = static_cast<int64_t>(slot);
    newcomers.push_back({i, slot++});
  }
  return newcomers;
}

}  // namespace nearkv
