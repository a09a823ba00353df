// The score kernel in plain loops, for a compiler to vectorise. Included by one file per
// instruction set, which defines block_crc_of (CRC-32C continued from a seed) before; everything
// here has internal linkage.
//
// Prepared query: int16 [G][D]. INT4 rows hold the even values first and the odd ones behind, as
// unpacking yields them.
#include <cstring>

#include "contract.hpp"
#include "isa.hpp"

namespace nearkv {
namespace {

size_t query_bytes(int group, int width) { return sizeof(int16_t) * group * width; }

void prepare(const int8_t* q, int group, int width, int bits, void* out) {
  int16_t* rows = static_cast<int16_t*>(out);
  for (int h = 0; h < group; ++h, q += width, rows += width)
    for (int i = 0; i < width; ++i) rows[bits == 8 ? i : (i % 2) * width / 2 + i / 2] = q[i];
}

template <int kBits, int kWidth>
void unpack(const uint8_t* payload, int16_t* keys) {
  if constexpr (kBits == 8) {
    for (int i = 0; i < kBlockTokens * kWidth; ++i) keys[i] = static_cast<int8_t>(payload[i]);
  } else {
    for (int t = 0; t < kBlockTokens; ++t, payload += kWidth / 2, keys += kWidth)
      for (int i = 0; i < kWidth / 2; ++i) {
        keys[i] = static_cast<int16_t>(((payload[i] & 15) ^ 8) - 8);
        keys[kWidth / 2 + i] = static_cast<int16_t>(((payload[i] >> 4) ^ 8) - 8);
      }
  }
}

// L of one block for one head from its dot products.
int32_t log_mass_of(const int32_t* dot, const uint8_t* m, int64_t c, int r, int64_t b) {
  int32_t x[kBlockTokens];
  int32_t peak = INT32_MIN;
  for (int t = 0; t < kBlockTokens; ++t) {
    int64_t value = ((static_cast<int64_t>(dot[t] * m[t]) * c) >> r) + b;
    value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
    x[t] = static_cast<int32_t>(value);
    const int32_t integer = m[t] ? x[t] >> 8 : INT32_MIN;
    peak = integer > peak ? integer : peak;
  }
  uint32_t sum = 0;
  for (int t = 0; t < kBlockTokens; ++t) {
    const int32_t gap = m[t] ? peak - (x[t] >> 8) : 31;
    const uint32_t addend = static_cast<uint32_t>(256 + (x[t] & 255)) << 12;
    sum += addend >> (gap < 31 ? gap : 31);
  }
  return sum ? log_of(peak, sum) : kEmpty;
}

template <int kBits, int kWidth>
bool sound(const uint8_t* block) {
  uint32_t stored;
  std::memcpy(&stored, block + kCrcOffset, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  stored = __builtin_bswap32(stored);
#endif
  if (block[kFormatOffset] != kBits || block[kWidthOffset] != kWidth / 32) return false;
  const uint32_t header = block_crc_of(0, block, kCrcOffset);
  return stored ==
         block_crc_of(header, block + kHeaderBytes, block_bytes(kWidth, kBits) - kHeaderBytes);
}

template <int kBits, int kWidth>
void score_run(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
               size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  alignas(64) int16_t keys[kBlockTokens * kWidth];
  const int16_t* q = static_cast<const int16_t*>(query.data);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* block = blocks + i * block_bytes(kWidth, kBits);
    if (!sound<kBits, kWidth>(block)) {
      bad[i] = 1;
      for (int h = 0; h < query.group; ++h) log_mass[h * stride + i] = kEmpty;
      continue;
    }
    unpack<kBits, kWidth>(block + kHeaderBytes, keys);
    for (int h = 0; h < query.group; ++h) {
      int32_t dot[kBlockTokens];
      for (int t = 0; t < kBlockTokens; ++t) {
        int32_t sum = 0;
        for (int j = 0; j < kWidth; ++j) sum += keys[t * kWidth + j] * q[h * kWidth + j];
        dot[t] = sum;
      }
      log_mass[h * stride + i] = log_mass_of(dot, block, scale.c[h], scale.r[h], scale.b[h]);
    }
  }
}

template <int kBits>
void score_width(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
                 size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  switch (query.width) {
    case 32:
      return score_run<kBits, 32>(query, scale, blocks, count, log_mass, stride, bad);
    case 64:
      return score_run<kBits, 64>(query, scale, blocks, count, log_mass, stride, bad);
    case 128:
      return score_run<kBits, 128>(query, scale, blocks, count, log_mass, stride, bad);
    default:
      return score_run<kBits, 256>(query, scale, blocks, count, log_mass, stride, bad);
  }
}

void score_blocks(const PreparedQuery& query, const RunScale& scale, const uint8_t* blocks,
                  size_t count, int32_t* log_mass, size_t stride, uint8_t* bad) {
  if (query.bits == 8) return score_width<8>(query, scale, blocks, count, log_mass, stride, bad);
  score_width<4>(query, scale, blocks, count, log_mass, stride, bad);
}

}  // namespace
}  // namespace nearkv
