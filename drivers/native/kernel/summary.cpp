#include "summary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
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
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t LaneInts __attribute__((vector_size(4 * kLanes)));
typedef uint32_t LaneBits __attribute__((vector_size(4 * kLanes)));
typedef uint16_t LaneHalves __attribute__((vector_size(2 * kLanes)));
typedef uint8_t LaneBytes __attribute__((vector_size(kLanes)));

// Always inline: a function of its own would be compiled for the narrowest vectors.
#define NEARKV_INLINE [[gnu::always_inline]] inline

template <typename Vector>
NEARKV_INLINE Vector load(const void* values) {
  Vector lanes;
  std::memcpy(&lanes, values, sizeof lanes);
  return lanes;
}

NEARKV_INLINE Lanes widen(const uint8_t* values) {
  // Step by step: in one, GCC 12 converts value after value.
  const LaneHalves halves = __builtin_convertvector(load<LaneBytes>(values), LaneHalves);
  return __builtin_convertvector(__builtin_convertvector(halves, LaneInts), Lanes);
}

// A half's exponent and fraction, read as those of a float, stand for a number 2^112 times smaller;
// infinities come out as 2^16.
NEARKV_INLINE Lanes widen(const Half* values) {
  const LaneBits bits = __builtin_convertvector(load<LaneHalves>(values), LaneBits);
  const LaneBits magnitude = (bits & 0x7fffu) << 13;
  const Lanes value = load<Lanes>(&magnitude) * 0x1p112f;
  const LaneBits with_sign = load<LaneBits>(&value) | (bits & 0x8000u) << 16;
  return load<Lanes>(&with_sign);
}

NEARKV_INLINE Lanes widen(const float* values) { return load<Lanes>(values); }

NEARKV_INLINE float sum_of(const Lanes& lanes) {
  float sums[kLanes];
  std::memcpy(sums, &lanes, sizeof sums);
  for (size_t half = kLanes / 2; half; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

// Products of one row with kHeads heads' features, so that it is widened once for them.
template <size_t kHeads, typename T>
NEARKV_INLINE void row_products(const T* row, const SummaryProducts& task, size_t head,
                                float* out) {
  const size_t width = task.width, whole = width - width % kLanes;
  const float* features = task.features + head * width;
  Lanes sums[kHeads] = {};
  for (size_t f = 0; f < whole; f += kLanes) {
    const Lanes values = widen(row + f);
    for (size_t g = 0; g < kHeads; ++g) sums[g] += load<Lanes>(features + g * width + f) * values;
  }
  float last[kLanes] = {};
  if (whole < width) {
    T rest[kLanes] = {};
    std::copy(row + whole, row + width, rest);
    const Lanes values = widen(rest);
    std::memcpy(last, &values, sizeof last);
  }
  for (size_t g = 0; g < kHeads; ++g) {
    float product = sum_of(sums[g]);
    for (size_t f = whole; f < width; ++f) product += features[g * width + f] * last[f - whole];
    out[(head + g) * task.stride] = product;
  }
}

template <size_t kHeads, typename T>
NEARKV_INLINE void head_products(const T* rows, const SummaryProducts& task, size_t head) {
  for (size_t i = 0; i < task.blocks; ++i)
    row_products<kHeads>(rows + i * task.width, task, head, task.out + i);
}

template <typename T>
NEARKV_INLINE void all_products(const T* rows, const SummaryProducts& task) {
  size_t head = 0;
  for (; head + 4 <= task.group; head += 4) head_products<4>(rows, task, head);
  switch (task.group - head) {
    case 3:
      return head_products<3>(rows, task, head);
    case 2:
      return head_products<2>(rows, task, head);
    case 1:
      return head_products<1>(rows, task, head);
  }
}

// e^x of x <= 0, within 2e-7 of it: 2^n times a polynomial for the rest of the exponent.
inline float exp_of_negative(float x) {
  const float exponent = std::max(x, -87.0f) * 1.44269504f;
  const int whole = static_cast<int>(exponent - 0.5f);
  const float rest = exponent - static_cast<float>(whole);
  float value = 1.535336e-4f;
  for (const float term :
       {1.339887e-3f, 9.618437e-3f, 5.550332e-2f, 2.402265e-1f, 6.931472e-1f, 1.0f})
    value = value * rest + term;
  return value * std::bit_cast<float>((whole + 127) << 23);
}

// e^(log_mass - peak) of every block.
NEARKV_WIDE void weigh(const float* log_mass, size_t blocks, float peak, float* weight) {
  for (size_t i = 0; i < blocks; ++i) weight[i] = exp_of_negative(log_mass[i] - peak);
}

}  // namespace

NEARKV_WIDE void summary_products(const uint8_t* rows, const SummaryProducts& task) {
  all_products(rows, task);
}

NEARKV_WIDE void summary_products(const Half* rows, const SummaryProducts& task) {
  all_products(rows, task);
}

NEARKV_WIDE void summary_products(const float* rows, const SummaryProducts& task) {
  all_products(rows, task);
}

void summary_shares(const SummaryEstimate& estimate, float* share) {
  const size_t blocks = estimate.blocks;
  std::fill_n(share, blocks, 0.0f);
  std::vector<float> weight(blocks);
  for (size_t g = 0; g < estimate.group; ++g) {
    const float *log_mass = estimate.log_mass + g * estimate.stride, outside = estimate.outside[g];
    float peak = outside;
    for (size_t i = 0; i < blocks; ++i) peak = std::max(peak, log_mass[i]);
    weigh(log_mass, blocks, peak, weight.data());
    const float sum = std::accumulate(weight.begin(), weight.end(), std::exp(outside - peak));
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
