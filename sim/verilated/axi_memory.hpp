// AXI4 memory for the Verilated kernel: two read ports and one write port over ranges of bytes,
// with a fixed latency, a bandwidth that the ports share, and optional random stalls. Everything
// counts in cycles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nearkv::sim {

constexpr unsigned kBeatBytes = 64;

// Bytes at [base, base + size) of the device's address space.
struct Region {
  uint8_t* bytes;
  uint64_t base;
  uint64_t size;
};

class Memory {
 public:
  explicit Memory(std::vector<Region> regions) : regions_(std::move(regions)) {}

  void replace(size_t index, uint8_t* bytes, uint64_t size) {
    regions_[index].bytes = bytes;
    regions_[index].size = size;
  }

  // The beat at an address; null where there is no memory, which a port answers with DECERR.
  uint8_t* at(uint64_t address) const {
    for (const Region& region : regions_) {
      const uint64_t offset = address - region.base;
      if (offset < region.size && region.size - offset >= kBeatBytes) return region.bytes + offset;
    }
    return nullptr;
  }

 private:
  std::vector<Region> regions_;
};

// Throws where a burst breaks a rule that the kernel promises: whole beats, within a page.
inline void check_burst(uint64_t address, unsigned length) {
  constexpr uint64_t kPage = 4096;
  if (address % kBeatBytes != 0 || address / kPage != (address + length * kBeatBytes) / kPage)
    throw std::runtime_error("a burst is not aligned, or crosses a page");
}

constexpr uint8_t kOkay = 0, kDecodeError = 3;

struct Timing {
  unsigned latency =
      0;  // cycles from a read address to its first beat, and from the last beat to a response
  double stall_share = 0;  // share of cycles in which a channel is held back
  uint64_t seed = 1;
  double bytes_per_cycle = 0;   // of all ports together; 0: no limit
  unsigned latency_spread = 0;  // more cycles of latency at most, at random, per transaction
};

// When a transaction that arrives now is answered.
class Latency {
 public:
  Latency(const Timing& timing, unsigned channel)
      : least_(timing.latency),
        spread_(timing.latency_spread),
        random_(timing.seed * 16 + channel) {}

  uint64_t due(uint64_t cycle) {
    return cycle + least_ + (spread_ == 0 ? 0 : random_() % (spread_ + 1));
  }

 private:
  unsigned least_, spread_;
  std::minstd_rand random_;
};

// What the memory can move: every beat of every port takes from it.
class Bandwidth {
 public:
  explicit Bandwidth(double bytes_per_cycle) : rate_(bytes_per_cycle) {}

  void next_cycle() { credit_ = std::min(credit_ + rate_, rate_ + kBeatBytes); }

  bool available() const { return rate_ == 0 || credit_ >= kBeatBytes; }

  void take() { credit_ -= kBeatBytes; }

 private:
  double rate_;
  double credit_ = 0;
};

// Decides per channel and cycle whether it is held back, in runs of 1 to 16 cycles.
class Stalls {
 public:
  Stalls(const Timing& timing, unsigned channel)
      : share_(timing.stall_share), random_(timing.seed * 16 + channel) {}

  bool now() {
    if (share_ == 0) return false;
    if (left_ == 0) {
      left_ = 1 + random_() % 16;
      stalled_ = static_cast<double>(random_() % 4096) < share_ * 4096;
    }
    --left_;
    return stalled_;
  }

 private:
  double share_;
  std::minstd_rand random_;
  unsigned left_ = 0;
  bool stalled_ = false;
};

// One AR/R port. `drive` sets the slave's signals before the clock edge, `clock` looks at the
// handshakes on it.
class ReadPort {
 public:
  ReadPort(const Memory& memory, Bandwidth& bandwidth, const Timing& timing, unsigned channel)
      : memory_(memory),
        bandwidth_(bandwidth),
        latency_(timing, channel),
        address_stalls_(timing, channel),
        data_stalls_(timing, channel + 1) {}

  // Cycles in which a burst waited for the memory.
  uint64_t waits() const { return waits_; }

  template <typename Ready, typename Valid, typename Last, typename Data, typename Response>
  void drive(uint64_t cycle, Ready& arready, Valid& rvalid, Last& rlast, Data& rdata,
             Response& rresp) {
    arready = !address_stalls_.now();
    if (!offering_ && !bursts_.empty()) {
      if (bursts_.front().due <= cycle && bandwidth_.available() && !data_stalls_.now()) {
        offer(rdata, rresp);
        rlast = bursts_.front().beats == 1;
      } else {
        ++waits_;
      }
    }
    rvalid = offering_;
  }

  void clock(uint64_t cycle, bool address_taken, uint64_t address, unsigned length,
             bool beat_taken) {
    if (address_taken) {
      check_burst(address, length);
      bursts_.push_back({address, length + 1, latency_.due(cycle)});
    }
    if (beat_taken) {
      Burst& burst = bursts_.front();
      burst.address += kBeatBytes;
      if (--burst.beats == 0) bursts_.pop_front();
      offering_ = false;
    }
  }

 private:
  struct Burst {
    uint64_t address;
    unsigned beats;
    uint64_t due;
  };

  template <typename Data, typename Response>
  void offer(Data& rdata, Response& rresp) {
    const uint8_t* beat = memory_.at(bursts_.front().address);
    if (beat != nullptr) std::memcpy(rdata.data(), beat, kBeatBytes);
    rresp = beat != nullptr ? kOkay : kDecodeError;
    bandwidth_.take();
    offering_ = true;
  }

  const Memory& memory_;
  Bandwidth& bandwidth_;
  Latency latency_;
  uint64_t waits_ = 0;
  Stalls address_stalls_, data_stalls_;
  std::deque<Burst> bursts_;
  bool offering_ = false;
};

// One AW/W/B port.
class WritePort {
 public:
  WritePort(const Memory& memory, Bandwidth& bandwidth, const Timing& timing, unsigned channel)
      : memory_(memory),
        bandwidth_(bandwidth),
        latency_(timing, channel),
        address_stalls_(timing, channel),
        data_stalls_(timing, channel + 1),
        response_stalls_(timing, channel + 2) {}

  template <typename Ready, typename Valid, typename Response>
  void drive(uint64_t cycle, Ready& awready, Ready& wready, Valid& bvalid, Response& bresp) {
    awready = !address_stalls_.now();
    wready = !bursts_.empty() && bandwidth_.available() && !data_stalls_.now();
    if (!offering_ && !responses_.empty() && responses_.front().due <= cycle) {
      offering_ = !response_stalls_.now();
      bresp = responses_.front().response;
    }
    bvalid = offering_;
  }

  template <typename Data>
  void clock(uint64_t cycle, bool address_taken, uint64_t address, unsigned length, bool beat_taken,
             const Data& data, bool last, bool response_taken) {
    if (beat_taken) {
      Burst& burst = bursts_.front();
      uint8_t* beat = memory_.at(burst.address);
      if (beat != nullptr) std::memcpy(beat, data.data(), kBeatBytes);
      response_ = std::max(response_, beat != nullptr ? kOkay : kDecodeError);
      bandwidth_.take();
      burst.address += kBeatBytes;
      if (last != (--burst.beats == 0)) throw std::runtime_error("wlast is in the wrong place");
      if (last) {
        bursts_.pop_front();
        responses_.push_back({latency_.due(cycle), response_});
        response_ = kOkay;
      }
    }
    if (address_taken) {
      check_burst(address, length);
      bursts_.push_back({address, length + 1});
    }
    if (response_taken) {
      responses_.pop_front();
      offering_ = false;
    }
  }

 private:
  struct Burst {
    uint64_t address;
    unsigned beats;
  };
  struct Answer {
    uint64_t due;
    uint8_t response;
  };
  const Memory& memory_;
  Bandwidth& bandwidth_;
  Latency latency_;
  uint8_t response_ = kOkay;  // of the burst that is being written
  Stalls address_stalls_, data_stalls_, response_stalls_;
  std::deque<Burst> bursts_;
  std::deque<Answer> responses_;
  bool offering_ = false;
};

}  // namespace nearkv::sim
