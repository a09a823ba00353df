#include "summary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

// The loops over rows are the whole cost: compiled for wider vectors as well, chosen when the
// module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NEARKV_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NEARKV_WIDE
#endif

namespace nearkv {
namespace {

constexpr size_t kLanes = 16;
// Rows that are made single precision at a time, and then meet every head's features.
constexpr size_t kTileRows = 16;

NEARKV_WIDE void widen(const uint8_t* values, size_t count, float* wide) {
  for (size_t i = 0; i < count; ++i) wide[i] = static_cast<float>(values[i]);
}

// A half's exponent and fraction, read as those of a float, stand for a number 2^112 times smaller;
// infinities come out as 2^16.
NEARKV_WIDE void widen(const Half* values, size_t count, float* wide) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = values[i].bits;
    const float magnitude = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
    wide[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & 0x8000u) << 16);
  }
}

// Sums run in lanes, so that they vectorise without reordering.
NEARKV_WIDE void tile_products(const float* rows, const SummaryProducts& task) {
  const size_t width = task.width, whole = width - width % kLanes;
  for (size_t g = 0; g < task.group; ++g) {
    const float* feature = task.features + g * width;
    for (size_t i = 0; i < task.blocks; ++i) {
      const float* row = rows + i * width;
      float sums[kLanes] = {};
      for (size_t f = 0; f < whole; f += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane)
          sums[lane] += feature[f + lane] * row[f + lane];
      for (size_t f = whole; f < width; ++f) sums[f - whole] += feature[f] * row[f];
      for (size_t half = kLanes / 2; half; half /= 2)
        for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
      task.out[g * task.stride + i] = sums[0];
    }
  }
}

template <typename T>
void tiled_products(const T* rows, SummaryProducts task) {
  std::vector<float> wide(kTileRows * task.width);
  const size_t blocks = task.blocks;
  for (size_t first = 0; first < blocks; first += kTileRows) {
    task.blocks = std::min(kTileRows, blocks - first);
    widen(rows + first * task.width, task.blocks * task.width, wide.data());
    tile_products(wide.data(), task);
    task.out += task.blocks;
  }
}

}  // namespace

void summary_products(const uint8_t* rows, const SummaryProducts& task) {
  tiled_products(rows, task);
}

void summary_products(const Half* rows, const SummaryProducts& task) { tiled_products(rows, task); }

void summary_products(const float* rows, const SummaryProducts& task) { tile_products(rows, task); }

void summary_shares(const SummaryEstimate& estimate, float* share) {
  const size_t blocks = estimate.blocks;
  std::fill_n(share, blocks, 0.0f);
  std::vector<float> weight(blocks);
  for (size_t g = 0; g < estimate.group; ++g) {
    const float *log_mass = estimate.log_mass + g * estimate.stride, outside = estimate.outside[g];
    float peak = outside;
    for (size_t i = 0; i < blocks; ++i) peak = std::max(peak, log_mass[i]);
    float sum = std::exp(outside - peak);
    for (size_t i = 0; i < blocks; ++i) sum += weight[i] = std::exp(log_mass[i] - peak);
    const float scale = 1.0f / (sum * static_cast<float>(estimate.group));
    for (size_t i = 0; i < blocks; ++i) share[i] += weight[i] * scale;
  }
}

void choose_candidates(const float* share, size_t blocks, double fraction, size_t sinks,
                       uint8_t* chosen) {
  const size_t always = std::min(sinks, blocks);
  std::fill_n(chosen, always, uint8_t{1});
  std::fill_n(chosen + always, blocks - always, uint8_t{0});
  std::vector<uint32_t> order(blocks - always);
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(always));
  const auto wanted = std::min(
      order.size(), static_cast<size_t>(std::ceil(fraction * static_cast<double>(order.size()))));
  if (wanted < order.size())
    std::nth_element(order.begin(), order.begin() + wanted, order.end(),
                     [share](uint32_t a, uint32_t b) {
                       return share[a] != share[b] ? share[a] > share[b] : a < b;
                     });
  for (size_t i = 0; i < wanted; ++i) chosen[order[i]] = 1;
}

}  // namespace nearkv
