// Rows of K and V to codes and back. Included by one file per instruction set; all of them write
// the same bytes: float32 steps in a fixed order, none of them fused.
#include <cmath>
#include <utility>

#include "attend.hpp"
#include "contract.hpp"
#include "float_lanes.inl"
#include "row_codec.hpp"

namespace nearkv {
namespace {

typedef int8_t LaneBytes __attribute__((vector_size(kLanes)));

// Partial sums of an error: as many whatever the width of a vector, so that the order is the same.
constexpr int kPartialSums = 16;
constexpr int kSumVectors = kPartialSums / kLanes;
constexpr int kClips = 4;
constexpr float kClip[kClips] = {1.0f, 0.9f, 0.8f, 0.7f};

template <KvType kType>
inline Lanes load_values(const uint8_t* row, int at) {
  if constexpr (kType == KvType::kFloat32) {
    return load(reinterpret_cast<const float*>(row) + at);
  } else {
    LaneHalves halves;
    std::memcpy(&halves, row + 2 * at, sizeof halves);
    return kType == KvType::kFloat16 ? widen_half(halves) : widen_bfloat(halves);
  }
}

template <KvType kType>
inline void store_values(uint8_t* row, int at, const Lanes& x) {
  if constexpr (kType == KvType::kFloat32) {
    store(reinterpret_cast<float*>(row) + at, x);
  } else {
    const LaneHalves halves = kType == KvType::kFloat16 ? narrow_half(x) : narrow_bfloat(x);
    std::memcpy(row + 2 * at, &halves, sizeof halves);
  }
}

template <int kSpan, size_t... kLane>
inline Lanes partners(const Lanes& x, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(x, x, (kLane ^ kSpan)...);
}

// One step of the transform inside a vector: low + high in the low lane of a pair, low - high in
// the high one.
template <int kSpan>
inline Lanes butterfly(const Lanes& x) {
  LaneBits sign;
  for (int lane = 0; lane < kLanes; ++lane) sign[lane] = lane & kSpan ? 0x80000000u : 0;
  return partners<kSpan>(x, std::make_index_sequence<kLanes>()) +
         as_type<Lanes>(as_type<LaneBits>(x) ^ sign);
}

inline Lanes butterflies(Lanes x) {
  x = butterfly<2>(butterfly<1>(x));
  if constexpr (kLanes > 4) x = butterfly<4>(x);
  if constexpr (kLanes > 8) x = butterfly<8>(x);
  return x;
}

// The contract's rotation without its factor: Hadamard blocks of the largest power of two in d,
// which is a multiple of 16 and so of a vector.
inline void rotate(Lanes* x, int d) {
  const int vectors = d / kLanes, most = (d & -d) / kLanes;
  for (int i = 0; i < vectors; ++i) x[i] = butterflies(x[i]);
  for (int span = 1; span < most; span *= 2)
    for (int base = 0; base < vectors; base += 2 * span)
      for (int i = base; i < base + span; ++i) {
        const Lanes low = x[i], high = x[i + span];
        x[i] = low + high;
        x[i + span] = low - high;
      }
}

inline float unit_of(int d) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d & -d)));
}

inline Lanes magnitude(const Lanes& x) {
  return as_type<Lanes>(as_type<LaneBits>(x) & 0x7FFFFFFFu);
}

inline float largest(const Lanes* x, int vectors) {
  Lanes most{};
  for (int i = 0; i < vectors; ++i) {
    const Lanes size = magnitude(x[i]);
    most = size > most ? size : most;
  }
  float peak = 0;
  for (int lane = 0; lane < kLanes; ++lane) peak = most[lane] > peak ? most[lane] : peak;
  return peak;
}

// A bfloat16 that is at least x >= 0, as a float.
inline float round_up(float x) {
  return as_type<float>((as_type<uint32_t>(x) + 0xFFFFu) & 0xFFFF0000u);
}

// round_half_even(x / step) within +-qmax.
inline Lanes quantised(const Lanes& x, float step, float qmax) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer
  Lanes q = ((x / step) + kRound) - kRound;
  q = q > qmax ? Lanes{} + qmax : q;
  return q < -qmax ? Lanes{} - qmax : q;
}

inline float squared_error(const Lanes* x, int vectors, float step, float qmax) {
  Lanes part[kSumVectors] = {};
  for (int i = 0; i < vectors; ++i) {
    const Lanes error = x[i] - quantised(x[i], step, qmax) * step;
    part[i % kSumVectors] = part[i % kSumVectors] + error * error;
  }
  float sums[kPartialSums];
  std::memcpy(sums, part, sizeof sums);
  for (int half = kPartialSums / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// 8 bits: no value is cut off. 4 bits: the clip of least squared error, the larger of equals.
inline float scale_of(const Lanes* x, int vectors, int bits) {
  const float peak = largest(x, vectors);
  if (bits == 8) return round_up(peak / 127.0f);
  float best = round_up(peak / 7.0f), least = INFINITY;  // where errors are beyond float32
  for (const float clip : kClip) {
    const float scale = round_up(clip * peak / 7.0f);
    const float error = squared_error(x, vectors, scale > 0 ? scale : 1.0f, 7.0f);
    if (error < least) {
      best = scale;
      least = error;
    }
  }
  return best;
}

inline void pack_nibbles(const int8_t* codes, int d, uint8_t* packed) {
  for (int i = 0; i < d / 2; ++i)
    packed[i] = static_cast<uint8_t>((codes[2 * i] & 15) | codes[2 * i + 1] * 16);
}

inline void unpack_nibbles(const uint8_t* packed, int d, int8_t* codes) {
  for (int i = 0; i < d / 2; ++i) {
    codes[2 * i] = static_cast<int8_t>(static_cast<int8_t>(packed[i] << 4) >> 4);
    codes[2 * i + 1] = static_cast<int8_t>(static_cast<int8_t>(packed[i]) >> 4);
  }
}

// False where a value has no code.
template <KvType kType>
bool encode_row(const uint8_t* row, const RowFormat& format, uint8_t* codes, uint16_t* scale) {
  const int d = format.d, vectors = d / kLanes;
  Lanes x[kMaxWidth / kLanes];
  LaneInts fits = LaneInts{} - 1;
  for (int i = 0; i < vectors; ++i) {
    x[i] = load_values<kType>(row, i * kLanes);
    fits &= magnitude(x[i]) < kRowLimit;
  }
  for (int lane = 0; lane < kLanes; ++lane)
    if (!fits[lane]) return false;
  rotate(x, d);
  const float unit = unit_of(d);
  for (int i = 0; i < vectors; ++i) x[i] = x[i] * unit;
  const float found = scale_of(x, vectors, format.bits), step = found > 0 ? found : 1.0f;
  *scale = static_cast<uint16_t>(as_type<uint32_t>(found) >> 16);
  int8_t narrow[kMaxWidth];
  int8_t* const target = format.bits == 8 ? reinterpret_cast<int8_t*>(codes) : narrow;
  for (int i = 0; i < vectors; ++i) {
    const Lanes q = quantised(x[i], step, format.bits == 8 ? 127.0f : 7.0f);
    const LaneBytes bytes =
        __builtin_convertvector(__builtin_convertvector(q, LaneInts), LaneBytes);
    std::memcpy(target + i * kLanes, &bytes, sizeof bytes);
  }
  if (format.bits == 4) pack_nibbles(narrow, d, codes);
  return true;
}

// Sums of codes are exact; only the last product rounds.
template <KvType kType>
void decode_row(const uint8_t* codes, uint16_t scale, const RowFormat& format, uint8_t* row) {
  const int d = format.d, vectors = d / kLanes;
  int8_t wide[kMaxWidth];
  if (format.bits == 4) unpack_nibbles(codes, d, wide);
  const int8_t* const source = format.bits == 8 ? reinterpret_cast<const int8_t*>(codes) : wide;
  Lanes x[kMaxWidth / kLanes];
  for (int i = 0; i < vectors; ++i) {
    LaneBytes bytes;
    std::memcpy(&bytes, source + i * kLanes, sizeof bytes);
    x[i] = __builtin_convertvector(__builtin_convertvector(bytes, LaneInts), Lanes);
  }
  rotate(x, d);
  const float factor = as_type<float>(static_cast<uint32_t>(scale) << 16) * unit_of(d);
  for (int i = 0; i < vectors; ++i) store_values<kType>(row, i * kLanes, x[i] * factor);
}

template <KvType kType>
size_t encode_typed(const RowFormat& format, const uint8_t* rows, size_t count, uint8_t* codes,
                    uint16_t* scales) {
  for (size_t i = 0; i < count; ++i)
    if (!encode_row<kType>(rows + i * format.d * element_bytes(format.type), format,
                           codes + i * code_bytes(format), scales + i))
      return i;
  return count;
}

template <KvType kType>
void decode_typed(const RowFormat& format, const uint8_t* codes, const uint16_t* scales,
                  size_t count, uint8_t* rows) {
  for (size_t i = 0; i < count; ++i)
    decode_row<kType>(codes + i * code_bytes(format), scales[i], format,
                      rows + i * format.d * element_bytes(format.type));
}

size_t encode_rows(const RowFormat& format, const uint8_t* rows, size_t count, uint8_t* codes,
                   uint16_t* scales) {
  switch (format.type) {
    case KvType::kFloat32:
      return encode_typed<KvType::kFloat32>(format, rows, count, codes, scales);
    case KvType::kFloat16:
      return encode_typed<KvType::kFloat16>(format, rows, count, codes, scales);
    default:
      return encode_typed<KvType::kBfloat16>(format, rows, count, codes, scales);
  }
}

void decode_rows(const RowFormat& format, const uint8_t* codes, const uint16_t* scales,
                 size_t count, uint8_t* rows) {
  switch (format.type) {
    case KvType::kFloat32:
      return decode_typed<KvType::kFloat32>(format, codes, scales, count, rows);
    case KvType::kFloat16:
      return decode_typed<KvType::kFloat16>(format, codes, scales, count, rows);
    default:
      return decode_typed<KvType::kBfloat16>(format, codes, scales, count, rows);
  }
}

constexpr RowCodec kRows{encode_rows, decode_rows};

}  // namespace
}  // namespace nearkv
