#include "attend.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "contract.hpp"
#include "thread_pool.hpp"

namespace nearkv {
namespace {

// KV per task: enough to be worth handing over, little enough that a few streams keep every thread
// busy.
constexpr size_t kLeastTaskBytes = 64 * 1024;
constexpr size_t kTasksPerThread = 2;
constexpr size_t kCopyTaskBytes = 256 * 1024;
constexpr double kLog2E = 1.44269504088896340736;

const uint8_t* pointer_to(uint64_t address) {
  return reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(address));
}

// Consecutive tokens in memory.
struct Span {
  const uint8_t* tokens;
  size_t count;
};

// Part of one stream's tokens, and the softmax over them once the task has run.
struct Task {
  size_t stream;
  std::vector<Span> spans;
  std::vector<float> peak, sum, output;  // [group], [group], [group][d]
};

// Blocks lie far apart and keys alternate with values: the processor does not foresee the way.
void prefetch(const Span& span, size_t token_bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < span.count * token_bytes; at += kLine)
    __builtin_prefetch(span.tokens + at, 0, 2);
}

std::vector<float> scaled_queries(const AttendInput& input) {
  std::vector<float> scaled(input.streams * input.group * input.d);
  const double factor = input.scale * kLog2E;
  for (size_t i = 0; i < scaled.size(); ++i)
    scaled[i] = static_cast<float>(input.queries[i] * factor);
  return scaled;
}

// Spans of at most a block, newest last, so that a tail can be shared between tasks as blocks are.
std::vector<Span> spans_of(const AttendInput& input, size_t stream) {
  std::vector<Span> spans;
  spans.reserve(input.block_count + input.tail_tokens[stream] / kBlockTokens + 1);
  for (size_t i = 0; i < input.block_count; ++i)
    if (const uint64_t address = input.blocks[stream * input.block_count + i])
      spans.push_back({pointer_to(address), kBlockTokens});
  const size_t token_bytes = 2 * static_cast<size_t>(input.d) * element_bytes(input.type);
  const auto tail = static_cast<size_t>(input.tail_tokens[stream]);
  for (size_t done = 0; done < tail; done += kBlockTokens)
    spans.push_back({pointer_to(input.tails[stream]) + done * token_bytes,
                     std::min<size_t>(kBlockTokens, tail - done)});
  return spans;
}

std::vector<Task> tasks_of(const AttendInput& input) {
  std::vector<std::vector<Span>> streams;
  size_t total = 0;
  for (size_t s = 0; s < input.streams; ++s) {
    streams.push_back(spans_of(input, s));
    total += streams.back().size();
  }
  const size_t block_bytes = 2 * kBlockTokens * input.d * element_bytes(input.type);
  const size_t tasks = kTasksPerThread * (ThreadPool::shared().workers() + 1);
  const size_t most = std::max(kLeastTaskBytes / block_bytes, (total + tasks - 1) / tasks);
  std::vector<Task> result;
  for (size_t s = 0; s < input.streams; ++s) {
    const std::vector<Span>& spans = streams[s];
    const size_t parts = (spans.size() + most - 1) / most;
    for (size_t part = 0; part < parts; ++part) {
      const auto begin = spans.begin() + static_cast<ptrdiff_t>(spans.size() * part / parts);
      const auto end = spans.begin() + static_cast<ptrdiff_t>(spans.size() * (part + 1) / parts);
      result.push_back({s, {begin, end}, {}, {}, {}});
    }
  }
  return result;
}

void run_task(const AttendInput& input, const Isa& isa, const float* queries, Task& task) {
  task.peak.assign(input.group, -std::numeric_limits<float>::infinity());
  task.sum.assign(input.group, 0.0f);
  task.output.assign(input.group * input.d, 0.0f);
  const AttendQuery query{queries + task.stream * input.group * input.d,
                          static_cast<int>(input.group), input.d, input.type};
  const size_t token_bytes = 2 * static_cast<size_t>(input.d) * element_bytes(input.type);
  for (size_t i = 0; i < task.spans.size(); ++i) {
    if (i + 1 < task.spans.size()) prefetch(task.spans[i + 1], token_bytes);
    isa.attend_tokens(query, task.spans[i].tokens, task.spans[i].count,
                      {task.peak.data(), task.sum.data(), task.output.data()});
  }
}

// Merges the softmaxes [first, last) over parts of one stream into output [group][d].
void merge(const Task* first, const Task* last, size_t group, size_t d, float* output) {
  for (size_t h = 0; h < group; ++h, output += d) {
    float peak = first->peak[h];
    for (const Task* task = first; task != last; ++task) peak = std::max(peak, task->peak[h]);
    double sum = 0;
    for (const Task* task = first; task != last; ++task)
      sum += static_cast<double>(task->sum[h]) * std::exp2(task->peak[h] - peak);
    for (const Task* task = first; task != last; ++task) {
      const auto share = static_cast<float>(std::exp2(task->peak[h] - peak) / sum);
      const float* part = task->output.data() + h * d;
      for (size_t i = 0; i < d; ++i) output[i] += share * part[i];
    }
  }
}

// log2(sum) + peak with 8 fraction bits; NaN, of queries that scoring refuses, counts as the least.
int32_t units_of(float peak, float sum) {
  const double units = std::rint((peak + std::log2(static_cast<double>(sum))) * 256);
  if (!(units >= kLogMassMin)) return kLogMassMin;
  return static_cast<int32_t>(std::min<double>(units, kLogMassMax));
}

}  // namespace

void attend(const AttendInput& input, const Isa& isa, float* output) {
  const std::vector<float> queries = scaled_queries(input);
  std::vector<Task> tasks = tasks_of(input);
  ThreadPool::shared().run(tasks.size(),
                           [&](size_t i) { run_task(input, isa, queries.data(), tasks[i]); });
  const size_t size = input.group * input.d;
  std::fill_n(output, input.streams * size, 0.0f);
  for (const Task *first = tasks.data(), *end = first + tasks.size(); first != end;) {
    const Task* last = first;
    while (last != end && last->stream == first->stream) ++last;
    merge(first, last, input.group, input.d, output + first->stream * size);
    first = last;
  }
}

void tail_mass(const AttendInput& input, const Isa& isa, int32_t* mass) {
  const std::vector<float> queries = scaled_queries(input);
  for (size_t s = 0; s < input.streams; ++s) {
    std::vector<float> peak(input.group, -std::numeric_limits<float>::infinity());
    std::vector<float> sum(input.group, 0.0f);
    isa.attend_tokens({queries.data() + s * input.group * input.d, static_cast<int>(input.group),
                       input.d, input.type},
                      pointer_to(input.tails[s]), static_cast<size_t>(input.tail_tokens[s]),
                      {peak.data(), sum.data(), nullptr});
    for (size_t h = 0; h < input.group; ++h)
      mass[s * input.group + h] = input.tail_tokens[s] ? units_of(peak[h], sum[h]) : kEmpty;
  }
}

void copy_blocks(const uint64_t* sources, const uint64_t* destinations, size_t count,
                 size_t length) {
  const size_t per_task = std::max<size_t>(1, kCopyTaskBytes / std::max<size_t>(1, length));
  ThreadPool::shared().run((count + per_task - 1) / per_task, [&](size_t task) {
    for (size_t i = task * per_task; i < std::min(count, (task + 1) * per_task); ++i)
      std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(destinations[i])),
                  pointer_to(sources[i]), length);
  });
}

}  // namespace nearkv
