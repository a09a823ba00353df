#include "pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace nearkv {
namespace {

struct Candidate {
  int64_t value;
  int32_t block;
  size_t index;
};

bool stays_before(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.block < b.block;
}

// The candidates that there are, those missed only where they were selected.
std::vector<Candidate> candidates_of(const StreamSlots& stream, int32_t pinned) {
  std::vector<Candidate> candidates;
  candidates.reserve(stream.slots + stream.count);
  const auto add = [&](int32_t block, size_t index) {
    if (block < 0) return;
    const int64_t highest = std::numeric_limits<int64_t>::max();
    candidates.push_back({block < pinned ? highest : stream.values[index], block, index});
  };
  for (size_t i = 0; i < stream.slots; ++i) add(stream.resident[i], i);
  for (size_t i = 0; i < stream.count; ++i)
    if (stream.slot[i] < 0) add(stream.selected[i], stream.slots + i);
  return candidates;
}

// Which candidates are among the `quota` best, by their index.
std::vector<bool> kept_of(const StreamSlots& stream, int32_t pinned) {
  std::vector<Candidate> candidates = candidates_of(stream, pinned);
  if (candidates.size() > stream.quota) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(stream.quota),
                     candidates.end(), stays_before);
    candidates.resize(stream.quota);
  }
  std::vector<bool> kept(stream.slots + stream.count, false);
  for (const Candidate& candidate : candidates) kept[candidate.index] = true;
  return kept;
}

}  // namespace

Admission admit(const StreamSlots& stream, int32_t pinned) {
  const std::vector<bool> kept = kept_of(stream, pinned);
  Admission admission;
  const auto leave = [&](size_t slot) {
    const int32_t block = std::exchange(stream.resident[slot], -1);
    stream.where[block] = -1;
    return block;
  };
  for (size_t i = 0; i < stream.slots; ++i) {
    if (stream.resident[i] < 0 || kept[i]) continue;
    leave(i);
    ++admission.demoted;
  }
  size_t free = 0;
  const auto enter = [&](int32_t block, bool selected, size_t from) {
    while (stream.resident[free] >= 0) ++free;
    stream.resident[free] = block;
    stream.where[block] = static_cast<int64_t>(free);
    admission.moves.push_back({selected, from, free});
  };
  for (size_t i = stream.quota; i < stream.slots; ++i)
    if (stream.resident[i] >= 0) enter(leave(i), false, i);
  for (size_t i = 0; i < stream.count; ++i)
    if (kept[stream.slots + i]) enter(stream.selected[i], true, i);
  return admission;
}

}  // namespace nearkv
