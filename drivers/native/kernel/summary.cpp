#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

// The loop over a row is the whole cost: compiled for wider vectors as well, chosen when the module
// is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NEARKV_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NEARKV_WIDE
#endif

namespace nearkv {
namespace {

constexpr size_t kLanes = 16;

// Products of one row with every head's features. Sums run in lanes, so that they vectorise without
// reordering; widths are multiples of the lanes (head sizes are multiples of 16).
NEARKV_WIDE void row_products(const uint8_t* row, size_t width, const float* features, size_t group,
                              float* products) {
  for (size_t g = 0; g < group; ++g) {
    const float* feature = features + g * width;
    float sums[kLanes] = {};
    for (size_t f = 0; f < width; f += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane)
        sums[lane] += feature[f + lane] * static_cast<float>(row[f + lane]);
    for (size_t half = kLanes / 2; half; half /= 2)
      for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    products[g] = sums[0];
  }
}

}  // namespace

void summary_shares(const SummaryQuery& query, float* share) {
  const size_t group = query.group, blocks = query.blocks;
  std::vector<float> estimate(blocks * group);
  for (size_t i = 0; i < blocks; ++i)
    row_products(query.rows + i * query.width, query.width, query.features, group,
                 estimate.data() + i * group);
  std::fill_n(share, blocks, 0.0f);
  std::vector<float> weight(blocks);
  for (size_t g = 0; g < group; ++g) {
    float peak = query.outside[g];
    for (size_t i = 0; i < blocks; ++i) peak = std::max(peak, estimate[i * group + g]);
    float sum = std::exp(query.outside[g] - peak);
    for (size_t i = 0; i < blocks; ++i) sum += weight[i] = std::exp(estimate[i * group + g] - peak);
    const float scale = 1.0f / (sum * static_cast<float>(group));
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
