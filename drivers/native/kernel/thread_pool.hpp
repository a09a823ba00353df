// A persistent pool: jobs are index ranges that workers, and whoever waits, take one index at a
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nearkv {

class ThreadPool {
 public:
  // A started job. Its tasks 0..count-1 run in any order, at most once each.
  class Job {
   public:
    bool done() const { return remaining_.load(std::memory_order_acquire) == 0; }
    // When the last task ended, once done: nobody has to be awake at that moment to know it.
    std::chrono::steady_clock::time_point finished() const {
      return std::chrono::steady_clock::time_point(
          std::chrono::steady_clock::duration(finished_at_.load(std::memory_order_acquire)));
    }

   private:
    friend class ThreadPool;
    std::function<void(size_t)> task_;
    size_t count_ = 0;
    std::atomic<size_t> next_{0};
    std::atomic<size_t> remaining_{0};
    std::atomic<std::chrono::steady_clock::rep> finished_at_{0};
    std::mutex mutex_;
    std::condition_variable finished_;
    std::exception_ptr error_;
  };

  // Process-wide pool with a worker for every processor but the waiter's; a child of fork gets one
  // of its own.
  static ThreadPool& shared();

  explicit ThreadPool(size_t workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::shared_ptr<Job> start(size_t count, std::function<void(size_t)> task);
  // Helps with the job's tasks, then blocks until it is done; rethrows the first exception of a
  // task.
  void wait(Job& job);
  // start and wait, without waking a worker for a single task.
  void run(size_t count, std::function<void(size_t)> task);

  size_t workers() const { return threads_.size(); }

 private:
  static bool step(Job& job);
  void work();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool stop_ = false;
};

}  // namespace nearkv
