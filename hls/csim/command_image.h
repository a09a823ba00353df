// Command and key memory for one request (docs/kernel-interface.md), and room for its result.
#pragma once

#include <cstring>
#include <vector>

#include "../nearkv_kernel.h"
#include "../records.h"
#include "vector_file.h"

class CommandImage {
 public:
  CommandImage(const ScoreVector& v, nearkv::Mode mode) : commands_(64), results_(64, 0xEE) {
    put<uint64_t>(commands_, 0, commands_.size());
    append_query(v);
    put<uint64_t>(commands_, 8, commands_.size());
    append_descriptors(v);
    put<uint64_t>(commands_, 16, results_.size());
    put<uint32_t>(commands_, 24, v.runs);
    put<uint32_t>(commands_, 28, v.blocks);
    put<uint32_t>(commands_, 32, v.k);
    const uint8_t shape[] = {uint8_t(v.bits), uint8_t(v.width / 32), uint8_t(v.group), mode};
    std::memcpy(&commands_[36], shape, sizeof shape);
    keys_ = v.data;
    const size_t payload = mode == nearkv::kTopK ? (std::min(v.k, v.blocks) + 7) / 8
                                                 : size_t(v.group) * ((v.blocks + 15) / 16);
    results_.resize(results_.size() + 64 * (2 + (v.blocks + 511) / 512 + payload), 0xEE);
  }

  void run() { nearkv_kernel(1, memory(commands_), memory(keys_), memory(results_)); }

  template <typename T>
  T result(size_t offset) const {
    T value;
    std::memcpy(&value, &results_.at(offset + sizeof(T) - 1) - (sizeof(T) - 1), sizeof(T));
    return value;
  }

 private:
  static nearkv::MemoryWord* memory(std::vector<uint8_t>& bytes) {
    return reinterpret_cast<nearkv::MemoryWord*>(bytes.data());
  }

  template <typename T>
  static void put(std::vector<uint8_t>& bytes, size_t offset, T value) {
    std::memcpy(&bytes.at(offset), &value, sizeof value);
  }

  void append_query(const ScoreVector& v) {
    const size_t at = commands_.size(), pitch = v.width < 64 ? 64 : v.width;
    commands_.resize(at + 64 + pitch * v.group);
    std::memcpy(&commands_[at], v.initial.data(), 4 * v.group);
    for (uint32_t h = 0; h < v.group; ++h)
      std::memcpy(&commands_[at + 64 + pitch * h], &v.q[size_t(h) * v.width], v.width);
  }

  void append_descriptors(const ScoreVector& v) {
    uint64_t address = 0;
    for (uint32_t run = 0; run < v.runs; ++run) {
      const size_t at = commands_.size();
      commands_.resize(at + 128);
      put<uint64_t>(commands_, at, address);
      put<uint32_t>(commands_, at + 8, v.run_blocks[run]);
      for (uint32_t h = 0; h < v.group; ++h) {
        const size_t i = size_t(run) * v.group + h;
        put<uint8_t>(commands_, at + 16 + h, v.r[i]);
        put<uint16_t>(commands_, at + 32 + 2 * h, v.c[i]);
        put<int32_t>(commands_, at + 64 + 4 * h, v.b[i]);
      }
      address += uint64_t(v.run_blocks[run]) * v.block_bytes;
    }
  }

  std::vector<uint8_t> commands_, keys_, results_;
};
