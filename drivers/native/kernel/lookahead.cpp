#include "lookahead.hpp"

#include <cmath>

namespace nearkv {
namespace {

constexpr int64_t kInside = int64_t{1} << 62;
constexpr float kOne = 1048576.0f;

}  // namespace

void report(const LookaheadBooks& books, const int32_t* blocks, const uint32_t* priority,
            size_t count, int64_t step) {
  for (size_t i = 0; i < count; ++i) {
    const int32_t block = blocks[i];
    if (block < 0) continue;
    const int64_t age = step - books.seen[block];
    if (age <= 0) continue;
    const float share = std::sqrt(static_cast<float>(priority[i]));
    for (size_t m = 0; m < books.means.size(); ++m) {
      const Decay& decay = books.decays[m];
      float& mean = books.means[m][block];
      mean = mean * decay.over(age) + decay.rest() * share;
    }
    books.seen[block] = step;
  }
}

void values(const LookaheadBooks& books, const int32_t* blocks, size_t count, int64_t step,
            int64_t window, int64_t* value) {
  for (size_t i = 0; i < count; ++i) {
    const int32_t block = blocks[i];
    if (block < 0) {
      value[i] = -1;
      continue;
    }
    float current = 0;
    for (size_t m = 0; m < books.means.size(); ++m)
      current += books.means[m][block] * books.decays[m].over(step - books.seen[block]);
    const int64_t inside = step - books.selected[block] < window ? kInside : 0;
    value[i] = inside + static_cast<int64_t>(current * kOne);
  }
}

}  // namespace nearkv
