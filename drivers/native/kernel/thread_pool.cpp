#include "thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace nearkv {
namespace {

ThreadPool* shared_pool = nullptr;
std::mutex shared_mutex;

// How long a waiter looks on before it sleeps: the last tasks of a short job end sooner than a
// sleeper wakes.
constexpr std::chrono::microseconds kLookOn{50};

}  // namespace

ThreadPool& ThreadPool::shared() {
  // The pool is never destroyed: workers may still run while the interpreter takes the process
  // down. A child of fork has none of its parent's threads, so it forgets the pool and starts one
  // of its own.
  static const int registered =
      pthread_atfork([] { shared_mutex.lock(); }, [] { shared_mutex.unlock(); },
                     [] {
                       shared_pool = nullptr;
                       shared_mutex.unlock();
                     });
  (void)registered;
  const std::lock_guard lock(shared_mutex);
  if (!shared_pool)
    shared_pool = new ThreadPool(std::max(2u, std::thread::hardware_concurrency()) - 1);
  return *shared_pool;
}

ThreadPool::ThreadPool(size_t workers) {
  for (size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ThreadPool::Job> ThreadPool::start(size_t count, std::function<void(size_t)> task) {
  auto job = std::make_shared<Job>();
  job->task_ = std::move(task);
  job->count_ = count;
  job->remaining_ = count;
  job->finished_at_ = std::chrono::steady_clock::now().time_since_epoch().count();
  if (!count) return job;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  if (count == 1)
    wake_.notify_one();
  else
    wake_.notify_all();
  return job;
}

void ThreadPool::wait(Job& job) {
  while (step(job)) {
  }
  const auto until = std::chrono::steady_clock::now() + kLookOn;
  while (!job.done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  std::unique_lock lock(job.mutex_);
  job.finished_.wait(lock, [&job] { return job.done(); });
  if (job.error_) std::rethrow_exception(job.error_);
}

void ThreadPool::run(size_t count, std::function<void(size_t)> task) {
  if (count == 1) return task(0);
  wait(*start(count, std::move(task)));
}

// Runs one task of the job; false when none is left to take.
bool ThreadPool::step(Job& job) {
  const size_t index = job.next_.fetch_add(1);
  if (index >= job.count_) return false;
  try {
    job.task_(index);
  } catch (...) {
    const std::lock_guard lock(job.mutex_);
    if (!job.error_) job.error_ = std::current_exception();
  }
  job.finished_at_ = std::chrono::steady_clock::now().time_since_epoch().count();
  if (job.remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::lock_guard lock(job.mutex_);
    job.finished_.notify_all();
  }
  return true;
}

void ThreadPool::work() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = jobs_.front();
    }
    while (step(*job)) {
    }
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty() && jobs_.front() == job) jobs_.pop_front();
  }
}

}  // namespace nearkv
