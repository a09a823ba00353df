// A FIFO with the interface of Vitis HLS's hls::stream, for C simulation where Vitis is not
// installed. Stages run one after the other there, so the FIFO grows as needed; reading an empty
// one means that producer and consumer disagree about a count, and aborts with the stream's name.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace hls {

template <typename T, int Depth = 0>
class stream {
 public:
  stream() : name_("unnamed") {}
  explicit stream(const char* name) : name_(name) {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  ~stream() {
    if (!empty()) fail("was destroyed with values that nobody read");
  }

  bool empty() const { return head_ == values_.size(); }
  std::size_t size() const { return values_.size() - head_; }

  void write(const T& value) { values_.push_back(value); }

  T read() {
    if (empty()) fail("was read while empty");
    T value = std::move(values_[head_++]);
    if (empty()) {
      values_.clear();
      head_ = 0;
    }
    return value;
  }

  void operator<<(const T& value) { write(value); }
  void operator>>(T& value) { value = read(); }

 private:
  [[noreturn]] void fail(const char* what) const {
    std::fprintf(stderr, "hls::stream %s %s\n", name_, what);
    std::abort();
  }

  const char* name_;
  std::vector<T> values_;
  std::size_t head_ = 0;
};

}  // namespace hls
