// Portable CRC-32C: slicing by 8.
#include "crc32c.hpp"

#include <bit>
#include <cstring>

namespace nearkv {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kCrcPolynomial : 0);
    tables[0][i] = value;
  }
  for (size_t slice = 1; slice < 8; ++slice)
    for (size_t i = 0; i < 256; ++i)
      tables[slice][i] = (tables[slice - 1][i] >> 8) ^ tables[0][tables[slice - 1][i] & 255];
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t load_little(const uint8_t* data) {
  uint32_t value;
  std::memcpy(&value, data, 4);
  return std::endian::native == std::endian::little ? value : __builtin_bswap32(value);
}

}  // namespace

uint32_t crc32c_portable(uint32_t seed, const uint8_t* data, size_t bytes) {
  uint32_t crc = ~seed;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    const uint32_t low = load_little(data) ^ crc;
    const uint32_t high = load_little(data + 4);
    crc = kTables[7][low & 255] ^ kTables[6][(low >> 8) & 255] ^ kTables[5][(low >> 16) & 255] ^
          kTables[4][low >> 24] ^ kTables[3][high & 255] ^ kTables[2][(high >> 8) & 255] ^
          kTables[1][(high >> 16) & 255] ^ kTables[0][high >> 24];
  }
  for (; bytes; --bytes, ++data) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 255];
  return ~crc;
}

}  // namespace nearkv
