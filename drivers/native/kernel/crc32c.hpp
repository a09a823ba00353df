// CRC-32C (Castagnoli, reflected, initial value and final exclusive-or of all ones).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nearkv {

constexpr uint32_t kCrcPolynomial = 0x82F63B78;

// CRC-32C of `bytes` at `data`, continued from `seed`, the CRC of what came before.
uint32_t crc32c_portable(uint32_t seed, const uint8_t* data, size_t bytes);

// Constants that fold 128 bits of a reflected CRC-32C over a distance of `bits`: the low half is
// multiplied by x^(bits + 32) mod P and the high half by x^(bits - 32) mod P, both reflected and
// shifted up by one.
struct FoldConstants {
  uint64_t low;
  uint64_t high;
};

static constexpr uint64_t fold_power(int exponent) {
  uint32_t value = 0x80000000;  // x^0, reflected
  for (int i = 0; i < exponent; ++i) value = (value >> 1) ^ (value & 1 ? kCrcPolynomial : 0);
  return static_cast<uint64_t>(value) << 1;
}

static constexpr FoldConstants fold_constants(int bits) {
  return {fold_power(bits + 32), fold_power(bits - 32)};
}

}  // namespace nearkv
