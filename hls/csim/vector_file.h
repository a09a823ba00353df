// Golden vector files (tests/vectors/README.md), read with nothing but fread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct ScoreVector {
  uint32_t bits, group, width, runs, blocks, block_bytes, k, count, bad;
  std::vector<uint32_t> run_blocks;
  std::vector<int8_t> q;
  std::vector<uint16_t> c;
  std::vector<uint8_t> r;
  std::vector<int32_t> b, initial, mass, total;
  std::vector<uint8_t> data;
  std::vector<uint32_t> positions, priorities, bad_positions;
};

[[noreturn]] inline void refuse(const std::string& path, const char* why) {
  std::fprintf(stderr, "%s: %s\n", path.c_str(), why);
  std::exit(2);
}

inline std::vector<uint8_t> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) refuse(path, "cannot be opened");
  std::vector<uint8_t> raw;
  uint8_t chunk[65536];
  for (size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;)
    raw.insert(raw.end(), chunk, chunk + n);
  std::fclose(file);
  return raw;
}

inline ScoreVector read_vector(const std::string& path) {
  const std::vector<uint8_t> raw = read_file(path);
  uint32_t word[32];
  if (raw.size() < sizeof word) refuse(path, "is too short for a vector file");
  std::memcpy(word, raw.data(), sizeof word);
  if (word[0] != 0x53564B4E || word[1] != 1 || word[2] != raw.size())
    refuse(path, "is not a score vector of version 1: run tests/vectors/generate.py");

  ScoreVector v;
  uint32_t* sizes[] = {&v.bits,        &v.group, &v.width, &v.runs, &v.blocks,
                       &v.block_bytes, &v.k,     &v.count, &v.bad};
  for (int i = 0; i < 9; ++i) *sizes[i] = word[3 + i];
  int section = 12;
  auto take = [&](auto& into, size_t count) {
    const size_t offset = word[section++], bytes = count * sizeof into[0];
    if (offset + bytes > raw.size()) refuse(path, "has a section beyond its end");
    into.resize(count);
    if (bytes) std::memcpy(into.data(), raw.data() + offset, bytes);
  };
  take(v.run_blocks, v.runs);
  take(v.q, size_t(v.group) * v.width);
  take(v.c, size_t(v.runs) * v.group);
  take(v.r, size_t(v.runs) * v.group);
  take(v.b, size_t(v.runs) * v.group);
  take(v.initial, v.group);
  take(v.data, size_t(v.blocks) * v.block_bytes);
  take(v.mass, size_t(v.group) * v.blocks);
  take(v.total, v.group);
  take(v.positions, v.count);
  take(v.priorities, v.count);
  take(v.bad_positions, v.bad);
  return v;
}
