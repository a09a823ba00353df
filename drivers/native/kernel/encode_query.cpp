#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "contract.hpp"
#include "encode.hpp"
#include "error.hpp"

namespace nearkv {
namespace {

constexpr int kMaxShift = 63;
constexpr double kLog2E = 1.4426950408889634;

void rotate(double* x, int d) {
  const int n = d & -d;
  for (int span = 1; span < n; span *= 2)
    for (int base = 0; base < d; base += 2 * span)
      for (int i = base; i < base + span; ++i) {
        const double low = x[i], high = x[i + span];
        x[i] = low + high;
        x[i + span] = low - high;
      }
  const double unit = 1.0 / std::sqrt(static_cast<double>(n));
  for (int i = 0; i < d; ++i) x[i] *= unit;
}

// Quantises one head; returns its scale s_h.
double quantise_head(const float* query, int d, int8_t* q) {
  double x[kMaxWidth];
  for (int i = 0; i < d; ++i) {
    if (!std::isfinite(query[i])) throw ContractError("a query is not finite (NaN or infinity)");
    x[i] = query[i];
  }
  rotate(x, d);
  double peak = 0;
  for (int i = 0; i < d; ++i) peak = std::max(peak, std::fabs(x[i]));
  const double scale = peak / 127, step = scale > 0 ? scale : 1.0;
  for (int i = 0; i < d; ++i) q[i] = static_cast<int8_t>(std::nearbyint(x[i] / step));
  return scale;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

struct FixedPoint {
  uint16_t mantissa;
  uint8_t shift;
};

// Mantissa in [2^15, 2^16) and right shift closest to `value`; 0 below the range.
FixedPoint fixed_point(double value) {
  if (!(value >= 0 && value < INFINITY))
    throw ContractError("the score scale " + short_number(value) + " is negative or not finite");
  int exponent;
  const double fraction = std::frexp(value, &exponent);
  long mantissa = std::lrint(fraction * 65536);
  int shift = 16 - exponent;
  if (mantissa == 65536) {
    mantissa = 32768;
    --shift;
  }
  if (value == 0 || shift > kMaxShift) return {0, kMaxShift};
  if (shift < 0)
    throw ContractError("the score scale " + short_number(value) +
                        " is out of range (at most 65,535): scale the queries down");
  return {static_cast<uint16_t>(mantissa), static_cast<uint8_t>(shift)};
}

int32_t rounded_bias(double dot, double unit) {
  const double bias = std::nearbyint(dot * unit);
  if (!(std::fabs(bias) <= INT32_MAX))
    throw ContractError("the bias (query times segment centre) is out of range of int32");
  return static_cast<int32_t>(bias);
}

}  // namespace

void encode_queries(const QueryBatch& batch, const EncodedQueries& out, const Isa& isa) {
  const int width = row_width(batch.d);
  const double unit = batch.attention_scale * kLog2E * 256;
  for (size_t stream = 0; stream < batch.streams; ++stream) {
    const float* queries = batch.queries + stream * batch.group * batch.d;
    double scale[kMaxGroup];
    for (int h = 0; h < batch.group; ++h)
      scale[h] =
          quantise_head(queries + h * batch.d, batch.d, out.q + (stream * batch.group + h) * width);
    for (size_t i = stream * batch.segments; i < (stream + 1) * batch.segments; ++i)
      for (int h = 0; h < batch.group; ++h) {
        const size_t at = i * batch.group + h;
        const FixedPoint point = fixed_point(scale[h] * batch.scales[i] * unit);
        out.c[at] = point.mantissa;
        out.r[at] = point.shift;
        out.b[at] = rounded_bias(
            isa.codec.dot(queries + h * batch.d, batch.centres + i * batch.d, batch.d), unit);
      }
  }
}

}  // namespace nearkv
