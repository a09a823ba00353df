// Keys and queries to the contract's integers, on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "isa.hpp"

namespace nearkv {

// One segment to encode. `centre` (d floats) and `scale` are adopted from an earlier segment, or
// null and 0.
struct SegmentKeys {
  KeyRows keys;
  int bits;
  uint64_t stream;
  uint32_t first_block;
  const float* centre;
  double scale;
};

// Where an encoded segment goes: centre float [d], blocks [blocks of the tokens][block bytes].
struct EncodedSegment {
  float* centre;
  double* scale;
  uint8_t* blocks;
};

// Encodes one segment. Throws ContractError: a token that is not finite, or too large for the
// adopted scale.
void encode_segment(const SegmentKeys& input, const EncodedSegment& output, const Isa& isa);

// Whether every token scale fits 255 times the adopted scale.
bool fits_adopted(const SegmentKeys& input, const Isa& isa);

// Queries of R streams with G heads each against S segments each: queries [R][G][d], centres
// [R][S][d], scales [R][S].
struct QueryBatch {
  const float* queries;
  const float* centres;
  const double* scales;
  size_t streams, segments;
  int group, d;
  double attention_scale;
};

// q [R][G][D] (zeroed by the caller), c, r, b [R][S][G].
struct EncodedQueries {
  int8_t* q;
  uint16_t* c;
  uint8_t* r;
  int32_t* b;
};

// Throws ContractError: a query that is not finite, a scale or bias out of the kernel's range.
void encode_queries(const QueryBatch& batch, const EncodedQueries& out, const Isa& isa);

}  // namespace nearkv
