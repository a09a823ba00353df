#include "reduce.hpp"

#include <algorithm>
#include <functional>

#include "contract.hpp"

namespace nearkv {

void TotalFold::add(int32_t log_mass) {
  if (log_mass == kEmpty) return;
  const int64_t exponent = log_mass >> 8;
  const uint64_t addend = static_cast<uint64_t>(256 + (log_mass & 255)) << 12;
  if (empty_) {
    exponent_ = exponent;
    empty_ = false;
  } else if (exponent > exponent_) {
    mass_ >>= std::min<int64_t>(exponent - exponent_, 40);
    exponent_ = exponent;
  }
  mass_ += addend >> std::min<int64_t>(exponent_ - exponent, 40);
}

int32_t TotalFold::total() const { return empty_ ? kEmpty : log_of(exponent_, mass_); }

namespace {

// One head's share of a block, in units of 2^-24.
inline uint64_t share_of(int32_t log_mass, int32_t total) {
  const int64_t y = std::min<int64_t>(static_cast<int64_t>(log_mass) - total, 0);
  const uint64_t share = static_cast<uint64_t>(256 + (y & 255)) << 24;
  return log_mass == kEmpty ? 0 : share >> std::min<int64_t>(8 - (y >> 8), 40);
}

}  // namespace

TopK top_k(const int32_t* log_mass, const int32_t* total, int heads, size_t blocks, size_t k) {
  // Priority above the inverted position: descending order of the pair is the contract's order.
  std::vector<uint64_t> order;
  std::vector<uint64_t> priority(blocks, 0);
  std::vector<uint8_t> exists(blocks, 0);
  for (int h = 0; h < heads; ++h)
    for (size_t i = 0; i < blocks; ++i) {
      const int32_t value = log_mass[h * blocks + i];
      priority[i] += share_of(value, total[h]);
      exists[i] |= value != kEmpty;
    }
  order.reserve(blocks);
  for (size_t i = 0; i < blocks; ++i)
    if (exists[i]) order.push_back(priority[i] << 32 | (UINT32_MAX - static_cast<uint32_t>(i)));
  const size_t count = std::min(k, order.size());
  if (count < order.size())
    std::nth_element(order.begin(), order.begin() + count, order.end(), std::greater<>());
  std::sort(order.begin(), order.begin() + count, std::greater<>());
  TopK best;
  best.positions.resize(count);
  best.priorities.resize(count);
  for (size_t i = 0; i < count; ++i) {
    best.positions[i] = UINT32_MAX - static_cast<uint32_t>(order[i]);
    best.priorities[i] = static_cast<uint32_t>(order[i] >> 32);
  }
  return best;
}

}  // namespace nearkv
