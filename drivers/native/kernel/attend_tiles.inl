// Softmax attention over tokens where they lie. Included by one file per instruction set; vector
// extensions let the compiler use whatever that file is compiled for, and everything has internal
// linkage.
//
// Scores are in log2 units (the queries carry the attention scale and log2 e), so that a weight is
// a power of two.
#include <cmath>
#include <cstring>
#include <limits>

#include "attend.hpp"
#include "contract.hpp"
#include "float_lanes.inl"

namespace nearkv {
namespace {

constexpr int kHeadTile = 4;
constexpr int kColumnTile = 2;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// 2^x for x <= 0 (and NaN) to float rounding: the Taylor series of 2^f on |f| <= 1/2, of which the
// first term left out is below 6e-9. What is below 2^-126 counts as 2^-126, nothing beside the
// largest weight, 1.
inline Lanes power_of_two(Lanes x) {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr float kTerm[] = {
      1.0f,
      static_cast<float>(kLn2),
      static_cast<float>(kLn2 * kLn2 / 2),
      static_cast<float>(kLn2 * kLn2 * kLn2 / 6),
      static_cast<float>(kLn2 * kLn2 * kLn2 * kLn2 / 24),
      static_cast<float>(kLn2 * kLn2 * kLn2 * kLn2 * kLn2 / 120),
      static_cast<float>(kLn2 * kLn2 * kLn2 * kLn2 * kLn2 * kLn2 / 720),
      static_cast<float>(kLn2 * kLn2 * kLn2 * kLn2 * kLn2 * kLn2 * kLn2 / 5040)};
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
  constexpr float kRound = 12582912.0f;
  x = x < -126.0f ? Lanes{} - 126.0f : x;
  const Lanes shifted = x + kRound;
  const Lanes fraction = x - (shifted - kRound);
  Lanes value = Lanes{} + kTerm[7];
  for (int i = 6; i >= 0; --i) value = value * fraction + kTerm[i];
  const LaneInts integer = as_type<LaneInts>(shifted) - as_type<int32_t>(kRound);
  return value * as_type<Lanes>((integer + 127) << 23);
}

template <Lanes (*kWiden)(const LaneHalves&)>
inline void widen(const uint8_t* source, size_t count, float* target) {
  for (size_t i = 0; i < count; i += kLanes) {
    LaneHalves halves;
    std::memcpy(&halves, source + 2 * i, sizeof halves);
    store(target + i, kWiden(halves));
  }
}

// Sums of the elements of each of kLanes vectors, in one vector.
inline Lanes sums_of(Lanes* x) {
#if defined(__AVX512F__)
  for (int i = 0; i < 8; ++i)
    x[i] = __builtin_shufflevector(x[i], x[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21,
                                   22, 23) +
           __builtin_shufflevector(x[i], x[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28,
                                   29, 30, 31);
  for (int i = 0; i < 4; ++i)
    x[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25,
                                   26, 27) +
           __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28,
                                   29, 30, 31);
  for (int i = 0; i < 2; ++i)
    x[i] = __builtin_shufflevector(x[i], x[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13,
                                   28, 29) +
           __builtin_shufflevector(x[i], x[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14,
                                   15, 30, 31);
  const Lanes sums = __builtin_shufflevector(x[0], x[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26,
                                             12, 28, 14, 30) +
                     __builtin_shufflevector(x[0], x[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27,
                                             13, 29, 15, 31);
  // Element 8a + 4b + 2c + d is now vector 8a + 4b + 2c + d's sum: every level kept its half.
  return sums;
#else
  Lanes sums;
  for (int i = 0; i < kLanes; ++i) {
    float sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += x[i][lane];
    sums[i] = sum;
  }
  return sums;
#endif
}

// Scores of up to 32 tokens for one head: score[i] is -infinity beyond `count`. Rows are keys,
// `stride` floats apart.
inline void score_tokens(const float* q, const float* keys, size_t stride, int count, int d,
                         float* score) {
  for (int first = 0; first < count; first += kLanes) {
    const float* row[kLanes];
    for (int i = 0; i < kLanes; ++i)
      row[i] = keys + (first + i < count ? first + i : count - 1) * stride;
    Lanes dot[kLanes] = {};
    for (int at = 0; at < d; at += kLanes) {
      const Lanes part = load(q + at);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) dot[i] = dot[i] + part * load(row[i] + at);
    }
    store(score + first, sums_of(dot));
  }
  for (int i = count; i < kBlockTokens; ++i) score[i] = kNothing;
}

// Turns scores [32] into weights relative to a peak that may have risen; rescale is what earlier
// sums shrink by.
inline void weigh(float* score, float* peak, float* sum, float* rescale) {
  float highest = *peak;
  for (int i = 0; i < kBlockTokens; ++i) highest = score[i] > highest ? score[i] : highest;
  Lanes total = {};
  for (int i = 0; i < kBlockTokens; i += kLanes) {
    const Lanes weight = power_of_two(load(score + i) - highest);
    store(score + i, weight);
    total = total + weight;
  }
  *rescale = power_of_two(Lanes{} + (*peak - highest))[0];
  float added = 0;
  for (int i = 0; i < kLanes; ++i) added += total[i];
  *sum = *sum * *rescale + added;
  *peak = highest;
}

// output[h] = output[h] * rescale[h] + weights of head h times the values, for kHeads heads and
// kColumns vectors of each.
template <int kHeads, int kColumns>
inline void add_columns(const float (*weight)[kBlockTokens], const float* rescale,
                        const float* values, size_t stride, int count, int d, float* output) {
  Lanes sum[kHeads][kColumns] = {};
  for (int t = 0; t < count; ++t) {
    const float* row = values + t * stride;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const Lanes value = load(row + c * kLanes);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) sum[h][c] = sum[h][c] + weight[h][t] * value;
    }
  }
  for (int h = 0; h < kHeads; ++h)
    for (int c = 0; c < kColumns; ++c) {
      float* place = output + h * d + c * kLanes;
      store(place, load(place) * rescale[h] + sum[h][c]);
    }
}

template <int kHeads>
void add_values(const float (*weight)[kBlockTokens], const float* rescale, const float* values,
                size_t stride, int count, int d, float* output) {
  int at = 0;
  for (; at + kColumnTile * kLanes <= d; at += kColumnTile * kLanes)
    add_columns<kHeads, kColumnTile>(weight, rescale, values + at, stride, count, d, output + at);
  for (; at < d; at += kLanes)
    add_columns<kHeads, 1>(weight, rescale, values + at, stride, count, d, output + at);
}

void add_values_of(int heads, const float (*weight)[kBlockTokens], const float* rescale,
                   const float* values, size_t stride, int count, int d, float* output) {
  switch (heads) {
    case 1:
      return add_values<1>(weight, rescale, values, stride, count, d, output);
    case 2:
      return add_values<2>(weight, rescale, values, stride, count, d, output);
    case 3:
      return add_values<3>(weight, rescale, values, stride, count, d, output);
    default:
      return add_values<4>(weight, rescale, values, stride, count, d, output);
  }
}

// At most 32 tokens of float32.
void attend_block(const AttendQuery& query, const float* tokens, int count,
                  const Softmax& softmax) {
  const size_t stride = 2 * static_cast<size_t>(query.d);
  for (int first = 0; first < query.group; first += kHeadTile) {
    const int heads = query.group - first < kHeadTile ? query.group - first : kHeadTile;
    float weight[kHeadTile][kBlockTokens];
    float rescale[kHeadTile];
    for (int i = 0; i < heads; ++i) {
      const int h = first + i;
      score_tokens(query.q + h * query.d, tokens, stride, count, query.d, weight[i]);
      weigh(weight[i], softmax.peak + h, softmax.sum + h, rescale + i);
    }
    if (softmax.output)
      add_values_of(heads, weight, rescale, tokens + query.d, stride, count, query.d,
                    softmax.output + first * query.d);
  }
}

void attend_tokens(const AttendQuery& query, const uint8_t* tokens, size_t count,
                   const Softmax& softmax) {
  const size_t token_bytes = 2 * static_cast<size_t>(query.d) * element_bytes(query.type);
  alignas(64) float wide[kBlockTokens * 2 * kMaxWidth];
  for (size_t done = 0; done < count; done += kBlockTokens) {
    const int part = static_cast<int>(count - done < kBlockTokens ? count - done : kBlockTokens);
    const uint8_t* source = tokens + done * token_bytes;
    const float* values = wide;
    if (query.type == KvType::kFloat32)
      values = reinterpret_cast<const float*>(source);
    else if (query.type == KvType::kFloat16)
      widen<widen_half>(source, static_cast<size_t>(part) * 2 * query.d, wide);
    else
      widen<widen_bfloat>(source, static_cast<size_t>(part) * 2 * query.d, wide);
    attend_block(query, values, part, softmax);
  }
}

}  // namespace
}  // namespace nearkv
