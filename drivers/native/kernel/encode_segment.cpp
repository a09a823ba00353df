#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "contract.hpp"
#include "encode.hpp"
#include "error.hpp"

namespace nearkv {
namespace {

constexpr size_t kTileTokens = 8;

template <typename T>
void store_little(uint8_t* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

// Rotated residuals, token scales and the centre of one segment.
struct Residuals {
  std::vector<double> tiles;
  std::vector<double> token_scale;  // padded to whole tiles
  std::vector<float> centre;
};

Residuals residuals_of(const SegmentKeys& input, const Isa& isa) {
  const KeyRows& keys = input.keys;
  const size_t bad = isa.codec.first_not_finite(keys);
  if (bad < keys.tokens)
    throw ContractError("the key of token " + std::to_string(bad) +
                        " is not finite (NaN or infinity)");
  Residuals out;
  out.centre.resize(keys.d);
  if (input.centre) {
    std::copy_n(input.centre, keys.d, out.centre.begin());
  } else {
    std::vector<double> sum(keys.d);
    isa.codec.sum(keys, sum.data());
    for (int i = 0; i < keys.d; ++i)
      out.centre[i] = static_cast<float>(sum[i] / static_cast<double>(keys.tokens));
  }
  const size_t padded = (keys.tokens + kTileTokens - 1) / kTileTokens * kTileTokens;
  out.tiles.resize(padded * keys.d);
  std::vector<double> peak(padded);
  out.token_scale.resize(padded);
  isa.codec.rotate(keys, out.centre.data(), out.tiles.data(), peak.data());
  if (input.bits == 4)
    isa.codec.int4_scale(out.tiles.data(), peak.data(), keys.tokens, keys.d,
                         out.token_scale.data());
  else
    for (size_t t = 0; t < padded; ++t) out.token_scale[t] = peak[t] / 127;
  return out;
}

// Position of the first token whose scale exceeds the adopted one, `tokens` if there is none.
size_t first_too_large(const SegmentKeys& input, const Residuals& residuals) {
  for (size_t t = 0; t < input.keys.tokens; ++t)
    if (!(residuals.token_scale[t] <= 255 * input.scale)) return t;
  return input.keys.tokens;
}

double own_scale(const SegmentKeys& input, const Residuals& residuals) {
  const auto end = residuals.token_scale.begin() + static_cast<ptrdiff_t>(input.keys.tokens);
  const double peak = *std::max_element(residuals.token_scale.begin(), end);
  return peak > 0 ? peak / 255 : 1.0;
}

void write_payload(uint8_t* row, const int8_t* q, int d, int bits) {
  if (bits == 8) {
    std::memcpy(row, q, d);
    return;
  }
  for (int i = 0; i < d / 2; ++i)
    row[i] = static_cast<uint8_t>((q[2 * i] & 15) | (q[2 * i + 1] << 4));
}

void write_header(uint8_t* block, const SegmentKeys& input, int width, size_t index,
                  size_t tokens) {
  block[kFormatOffset] = static_cast<uint8_t>(input.bits);
  block[kWidthOffset] = static_cast<uint8_t>(width / 32);
  store_little<uint16_t>(block + 34, static_cast<uint16_t>(tokens));
  store_little<uint32_t>(block + 36, input.first_block + static_cast<uint32_t>(index));
  store_little<uint64_t>(block + 40, input.stream);
}

}  // namespace

void encode_segment(const SegmentKeys& input, const EncodedSegment& output, const Isa& isa) {
  const KeyRows& keys = input.keys;
  const Residuals residuals = residuals_of(input, isa);
  if (input.centre) {
    const size_t large = first_too_large(input, residuals);
    if (large < keys.tokens)
      throw ContractError("token " + std::to_string(large) +
                          " exceeds the adopted segment's scale: start a segment of its own");
  }
  const double scale = input.centre ? input.scale : own_scale(input, residuals);
  std::copy(residuals.centre.begin(), residuals.centre.end(), output.centre);
  *output.scale = scale;

  const int width = row_width(keys.d), qmax = input.bits == 8 ? 127 : 7;
  const size_t size = block_bytes(width, input.bits),
               row_bytes = static_cast<size_t>(width) * input.bits / 8;
  const size_t blocks = (keys.tokens + kBlockTokens - 1) / kBlockTokens;
  std::memset(output.blocks, 0, blocks * size);
  std::vector<int8_t> rows(kTileTokens * keys.d);
  for (size_t first = 0; first < keys.tokens; first += kTileTokens) {
    uint8_t multiplier[kTileTokens];
    for (size_t lane = 0; lane < kTileTokens; ++lane) {
      const double ratio = residuals.token_scale[first + lane] / scale;
      const double whole = input.bits == 8 ? std::ceil(ratio) : std::nearbyint(ratio);
      multiplier[lane] = static_cast<uint8_t>(std::clamp(whole, 1.0, 255.0));
    }
    isa.codec.quantise(residuals.tiles.data() + first * keys.d, multiplier, scale, keys.d, qmax,
                       rows.data());
    for (size_t lane = 0; lane < kTileTokens && first + lane < keys.tokens; ++lane) {
      const size_t token = first + lane;
      uint8_t* block = output.blocks + token / kBlockTokens * size;
      block[token % kBlockTokens] = multiplier[lane];
      write_payload(block + kHeaderBytes + token % kBlockTokens * row_bytes,
                    rows.data() + lane * keys.d, keys.d, input.bits);
    }
  }
  for (size_t i = 0; i < blocks; ++i) {
    uint8_t* block = output.blocks + i * size;
    write_header(block, input, width, i,
                 std::min<size_t>(kBlockTokens, keys.tokens - i * kBlockTokens));
    const uint32_t header = isa.crc32c(0, block, kCrcOffset);
    store_little<uint32_t>(block + kCrcOffset,
                           isa.crc32c(header, block + kHeaderBytes, size - kHeaderBytes));
  }
}

bool fits_adopted(const SegmentKeys& input, const Isa& isa) {
  return first_too_large(input, residuals_of(input, isa)) == input.keys.tokens;
}

}  // namespace nearkv
