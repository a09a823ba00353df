// What every instruction set implements, and how one is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nearkv {

// Scale of one run for every head of the query: c, r and b are [G].
struct RunScale {
  const uint16_t* c;
  const uint8_t* r;
  const int32_t* b;
};

// A query in the layout that one instruction set's kernel reads.
struct PreparedQuery {
  const void* data;
  int group;
  int width;
  int bits;
};

// Log-mass of `count` consecutive blocks: log_mass[h * stride + i] for head h and block i. A block
// whose CRC or header does not match sets bad[i] to 1 and counts as empty; bad[i] is left alone
// otherwise.
using ScoreBlocks = void (*)(const PreparedQuery& query, const RunScale& scale,
                             const uint8_t* blocks, size_t count, int32_t* log_mass, size_t stride,
                             uint8_t* bad);

// Keys of one segment: rows of d floats, `row_stride` floats apart.
struct KeyRows {
  const float* data;
  ptrdiff_t row_stride;
  size_t tokens;
  int d;
};

// The encoder's inner loops (codec_tiles.inl). Rotated residuals are kept in tiles of eight tokens,
// double [d][8] each, so that one vector holds one coordinate of eight tokens; the last tile is
// filled up with zeros.
struct TokenCodec {
  // Position of the first token that is not finite, `tokens` if there is none.
  size_t (*first_not_finite)(const KeyRows& keys);
  // sum[i] of coordinate i over the tokens, added in order.
  void (*sum)(const KeyRows& keys, double* sum);
  // Tiles of rotate(keys - centre) and per token peak = max |rotated|.
  void (*rotate)(const KeyRows& keys, const float* centre, double* tiles, double* peak);
  // Per token the clipped INT4 scale of least squared error.
  void (*int4_scale)(const double* tiles, const double* peak, size_t tokens, int d, double* scale);
  // clamp(round_half_even(rotated / (m S))) as int8 [d] of each of the eight tokens of one tile:
  // rows [8][d].
  void (*quantise)(const double* tile, const uint8_t* multiplier, double scale, int d, int qmax,
                   int8_t* rows);
  // Sum of a[i] b[i] in float64, in eight partial sums: its order is not part of the contract. d is
  // a multiple of 8.
  double (*dot)(const float* a, const float* b, int d);
};

// How KV is stored: per token the key, then the value, [2][d].
enum class KvType { kFloat32, kFloat16, kBfloat16 };

// The queries of one stream in float32 [group][d], times the attention scale and log2 e.
struct AttendQuery {
  const float* q;
  int group;
  int d;
  KvType type;
};

// A softmax over the tokens seen so far: the highest score (log2), the sum of 2^(score - peak), and
// with the same weights the sum of the values. output is null where only the sums are wanted.
struct Softmax {
  float* peak;    // [group], from -infinity
  float* sum;     // [group], from 0
  float* output;  // [group][d], from 0
};

// Adds `count` consecutive tokens at `tokens`.
using AttendTokens = void (*)(const AttendQuery& query, const uint8_t* tokens, size_t count,
                              const Softmax& softmax);

// Rows of K and V as cold blocks keep them (row_codec.hpp), `count` of them.
struct RowFormat;
struct RowCodec {
  // Codes and scales of the rows. Returns the first row that has none, `count` if there is none.
  size_t (*encode)(const RowFormat& format, const uint8_t* rows, size_t count, uint8_t* codes,
                   uint16_t* scales);
  void (*decode)(const RowFormat& format, const uint8_t* codes, const uint16_t* scales,
                 size_t count, uint8_t* rows);
};

struct Isa {
  const char* name;
  size_t (*query_bytes)(int group, int width);
  void (*prepare)(const int8_t* q, int group, int width, int bits, void* out);
  ScoreBlocks score_blocks;
  uint32_t (*crc32c)(uint32_t seed, const uint8_t* data, size_t bytes);
  TokenCodec codec;
  AttendTokens attend_tokens;
  RowCodec rows;
};

extern const Isa kPortable;
#if defined(__x86_64__)
extern const Isa kAvx2;
extern const Isa kAvx512;
#endif

// Those that this processor can run, fastest first.
const std::vector<const Isa*>& available_isas();

// The fastest one, or the one called `name`; throws std::invalid_argument naming what there is.
const Isa& select_isa(const std::string& name = "");

}  // namespace nearkv
