// AXI4 memory for the Verilated kernel: two read ports and one write port over one range of bytes, with a fixed
// latency and optional random stalls. Everything counts in cycles.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>

namespace nearkv::sim {

constexpr unsigned kBeatBytes = 64;

// Bytes at [base, base + size) of the device's address space.
struct Memory {
  uint8_t* bytes = nullptr;
  uint64_t base = 0;
  uint64_t size = 0;

  uint8_t* at(uint64_t address) const {
    if (address < base || address - base > size - kBeatBytes) {
      throw std::out_of_range("the kernel touched an address outside the memory");
    }
    return bytes + (address - base);
  }
};

struct Timing {
  unsigned latency = 0;       // cycles from a read address to its first beat, and from the last beat to a response
  double stall_share = 0;     // share of cycles in which a channel is held back
  uint64_t seed = 1;
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

// One AR/R port. `drive` sets the slave's signals before the clock edge, `clock` looks at the handshakes on it.
class ReadPort {
 public:
  ReadPort(const Memory& memory, const Timing& timing, unsigned channel)
      : memory_(memory), latency_(timing.latency), address_stalls_(timing, channel),
        data_stalls_(timing, channel + 1) {}

  template <typename Ready, typename Valid, typename Last, typename Data>
  void drive(uint64_t cycle, Ready& arready, Valid& rvalid, Last& rlast, Data& rdata) {
    arready = !address_stalls_.now();
    if (!offering_ && !bursts_.empty() && bursts_.front().due <= cycle && !data_stalls_.now()) {
      const Burst& burst = bursts_.front();
      std::memcpy(rdata.data(), memory_.at(burst.address), kBeatBytes);
      rlast = burst.beats == 1;
      offering_ = true;
    }
    rvalid = offering_;
  }

  void clock(uint64_t cycle, bool address_taken, uint64_t address, unsigned length, bool beat_taken) {
    if (address_taken) bursts_.push_back({address, length + 1, cycle + latency_});
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
  const Memory& memory_;
  unsigned latency_;
  Stalls address_stalls_, data_stalls_;
  std::deque<Burst> bursts_;
  bool offering_ = false;
};

// One AW/W/B port.
class WritePort {
 public:
  WritePort(const Memory& memory, const Timing& timing, unsigned channel)
      : memory_(memory), latency_(timing.latency), address_stalls_(timing, channel),
        data_stalls_(timing, channel + 1), response_stalls_(timing, channel + 2) {}

  template <typename Ready, typename Valid>
  void drive(uint64_t cycle, Ready& awready, Ready& wready, Valid& bvalid) {
    awready = !address_stalls_.now();
    wready = !bursts_.empty() && !data_stalls_.now();
    if (!offering_ && !responses_.empty() && responses_.front() <= cycle) {
      offering_ = !response_stalls_.now();
    }
    bvalid = offering_;
  }

  template <typename Data>
  void clock(uint64_t cycle, bool address_taken, uint64_t address, bool beat_taken, const Data& data, bool last,
             bool response_taken) {
    if (beat_taken) {
      std::memcpy(memory_.at(bursts_.front()), data.data(), kBeatBytes);
      bursts_.front() += kBeatBytes;
      if (last) {
        bursts_.pop_front();
        responses_.push_back(cycle + latency_);
      }
    }
    if (address_taken) bursts_.push_back(address);
    if (response_taken) {
      responses_.pop_front();
      offering_ = false;
    }
  }

 private:
  const Memory& memory_;
  unsigned latency_;
  Stalls address_stalls_, data_stalls_, response_stalls_;
  std::deque<uint64_t> bursts_;
  std::deque<uint64_t> responses_;
  bool offering_ = false;
};

}  // namespace nearkv::sim
