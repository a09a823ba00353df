// The encoder's inner loops on tiles of eight tokens, the same float64 steps in the same order as
// the golden model (nearkv/contract/encode.py and rotate.py), so that both encoders write the same
// bytes. Vector extensions let the compiler use whatever the file is compiled for; everything has
// internal linkage.
#include <cmath>
#include <cstring>

#include "codec.hpp"
#include "contract.hpp"

namespace nearkv {
namespace {

constexpr int kLanes = 8;
typedef double Lanes __attribute__((vector_size(8 * kLanes)));
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int64_t LaneInts __attribute__((vector_size(8 * kLanes)));

// Adding and taking away 1.5 * 2^52 rounds half to even while |x| < 2^51; quotients here are below
// 2^8.
constexpr double kRound = 6755399441055744.0;

inline Lanes all(double value) { return Lanes{} + value; }
inline Lanes rounded(Lanes x) { return (x + kRound) - kRound; }
inline Lanes clamped(Lanes x, Lanes limit) {
  x = x > limit ? limit : x;
  return x < -limit ? -limit : x;
}
inline Lanes magnitude(Lanes x) { return x < 0.0 ? -x : x; }
inline Lanes load_lanes(const double* data) {
  Lanes x;
  std::memcpy(&x, data, sizeof x);
  return x;
}
inline void store_lanes(double* data, Lanes x) { std::memcpy(data, &x, sizeof x); }

size_t first_not_finite(const KeyRows& keys) {
  for (size_t t = 0; t < keys.tokens; ++t) {
    const float* row = keys.data + static_cast<ptrdiff_t>(t) * keys.row_stride;
    uint32_t bad = 0;
    for (int i = 0; i < keys.d; ++i) {
      uint32_t word;
      std::memcpy(&word, row + i, 4);
      bad |= (word & 0x7F800000) == 0x7F800000;
    }
    if (bad) return t;
  }
  return keys.tokens;
}

void sum(const KeyRows& keys, double* total) {
  for (int i = 0; i < keys.d; ++i) total[i] = 0;
  for (size_t t = 0; t < keys.tokens; ++t) {
    const float* row = keys.data + static_cast<ptrdiff_t>(t) * keys.row_stride;
    for (int i = 0; i < keys.d; ++i) total[i] += row[i];
  }
}

void rotate_tile(Lanes* x, int d) {
  const int n = d & -d;
  for (int span = 1; span < n; span *= 2)
    for (int base = 0; base < d; base += 2 * span)
      for (int i = base; i < base + span; ++i) {
        const Lanes low = x[i], high = x[i + span];
        x[i] = low + high;
        x[i + span] = low - high;
      }
  const double unit = 1.0 / std::sqrt(static_cast<double>(n));
  for (int i = 0; i < d; ++i) x[i] *= unit;
}

void rotate(const KeyRows& keys, const float* centre, double* tiles, double* peak) {
  Lanes x[kMaxWidth];
  for (size_t first = 0; first < keys.tokens;
       first += kLanes, tiles += keys.d * kLanes, peak += kLanes) {
    for (int i = 0; i < keys.d; ++i) x[i] = Lanes{};
    for (int lane = 0; lane < kLanes && first + lane < keys.tokens; ++lane) {
      const float* row = keys.data + static_cast<ptrdiff_t>(first + lane) * keys.row_stride;
      for (int i = 0; i < keys.d; ++i)
        x[i][lane] = static_cast<double>(row[i]) - static_cast<double>(centre[i]);
    }
    rotate_tile(x, keys.d);
    Lanes most{};
    for (int i = 0; i < keys.d; ++i) {
      const Lanes size = magnitude(x[i]);
      most = size > most ? size : most;
    }
    std::memcpy(tiles, x, sizeof(Lanes) * keys.d);
    store_lanes(peak, most);
  }
}

// Squared error of coordinates [first, first + count) at `step`, summed as NumPy sums: eight
// partial sums, halves above 128 values.
Lanes squared_error(const double* tile, Lanes step, int first, int count) {
  if (count > 128) {
    const int half = count / 2 - count / 2 % 8;
    return squared_error(tile, step, first, half) +
           squared_error(tile, step, first + half, count - half);
  }
  Lanes part[8];
  for (int i = 0; i < count; ++i) {
    const Lanes x = load_lanes(tile + (first + i) * kLanes);
    const Lanes error = x - clamped(rounded(x / step), all(7)) * step;
    part[i % 8] = i < 8 ? error * error : part[i % 8] + error * error;
  }
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

void int4_scale(const double* tiles, const double* peak, size_t tokens, int d, double* scale) {
  for (size_t first = 0; first < tokens; first += kLanes, tiles += d * kLanes) {
    const Lanes most = load_lanes(peak + first);
    Lanes best_scale{}, best_error = all(INFINITY);
    for (int clip = 20; clip >= 12; --clip) {
      const Lanes candidate = clip / 20.0 * most / 7.0;
      const Lanes error = squared_error(tiles, candidate > 0.0 ? candidate : all(1), 0, d);
      const LaneInts better = error < best_error;
      best_scale = better ? candidate : best_scale;
      best_error = better ? error : best_error;
    }
    store_lanes(scale + first, best_scale);
  }
}

void quantise(const double* tile, const uint8_t* multiplier, double scale, int d, int qmax,
              int8_t* rows) {
  Lanes step;
  for (int lane = 0; lane < kLanes; ++lane) step[lane] = multiplier[lane] * scale;
  for (int i = 0; i < d; ++i) {
    const Lanes q = clamped(rounded(load_lanes(tile + i * kLanes) / step), all(qmax));
    for (int lane = 0; lane < kLanes; ++lane) rows[lane * d + i] = static_cast<int8_t>(q[lane]);
  }
}

double dot(const float* a, const float* b, int d) {
  Lanes part{};
  for (int i = 0; i < d; i += kLanes) {
    Floats x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    part += __builtin_convertvector(x, Lanes) * __builtin_convertvector(y, Lanes);
  }
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += part[lane];
  return sum;
}

constexpr TokenCodec kCodec{first_not_finite, sum, rotate, int4_scale, quantise, dot};

}  // namespace
}  // namespace nearkv
