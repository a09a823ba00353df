// The score kernel, version 1, for Vitis HLS. Each request runs in two phases: its score blocks
// stream through the stages below and leave log-masses on chip, then those are ranked or written
// out.
#include "nearkv_kernel.h"

#include "stages/block_mass.h"
#include "stages/block_scores.h"
#include "stages/check.h"
#include "stages/crc32c.h"
#include "stages/fetch.h"
#include "stages/mac.h"
#include "stages/query_layout.h"
#include "stages/results.h"
#include "stages/scale.h"

namespace nearkv {

static void stream_blocks(const Request& request, const MemoryWord* commands,
                          const MemoryWord* keys, const QueryLanes& query,
                          const int32_t initial[kMaxGroup], MassRow store[kStoreRows],
                          uint64_t bitmap[kStoreRows / 64], Outcome& outcome) {
#pragma HLS DATAFLOW
  hls::stream<RunExtent> extents("extents");
  hls::stream<RunScale> scales("scales");
  hls::stream<Beat> beats("beats");
  hls::stream<BlockTokens> tokens("tokens");
  hls::stream<Beat> payload("payload");
  hls::stream<bool> sound("sound");
  hls::stream<Dots> dots("dots");
  hls::stream<TokenScores> scores("scores");
  hls::stream<TokenScores> delayed("delayed");
  hls::stream<Peaks> peaks("peaks");
  hls::stream<LogMasses> masses("masses");
#pragma HLS STREAM variable = extents depth = 4
#pragma HLS STREAM variable = scales depth = 4
#pragma HLS STREAM variable = beats depth = 64
#pragma HLS STREAM variable = tokens depth = 4
#pragma HLS STREAM variable = payload depth = 16
#pragma HLS STREAM variable = sound depth = 8
#pragma HLS STREAM variable = dots depth = 4
#pragma HLS STREAM variable = scores depth = 4
#pragma HLS STREAM variable = delayed depth = 128  // a block's scores wait for its peaks
#pragma HLS STREAM variable = peaks depth = 4
#pragma HLS STREAM variable = masses depth = 4
  read_runs(request, commands, extents, scales);
  read_blocks(request.runs, keys, extents, beats);
  crc32c(request.shape, beats, tokens, payload, sound);
  mac(request.shape, query, payload, dots);
  scale(request.shape, scales, tokens, dots, scores);
  block_scores(request.shape, scores, delayed, peaks);
  block_mass(request.shape, delayed, peaks, sound, masses);
  fold(request.shape, initial, masses, store, bitmap, outcome);
}

static uint32_t select_blocks(const Request& request, const MassRow store[kStoreRows],
                              const Outcome& outcome, Rank heap[kMaxTopK]) {
#pragma HLS DATAFLOW
  hls::stream<Rank> ranks("ranks");
#pragma HLS STREAM variable = ranks depth = 64
  priority(request.shape, store, outcome.total, ranks);
  return keep_best(request.shape.blocks, request.k, ranks, heap);
}

static Status run_request(const Request& request, const MemoryWord* commands,
                          const MemoryWord* keys, MemoryWord* results) {
  static MassRow store[kStoreRows];
#pragma HLS BIND_STORAGE variable = store type = ram_2p impl = uram
#pragma HLS AGGREGATE variable = store
  static uint64_t bitmap[kStoreRows / 64];
  static Rank heap[kMaxTopK];
  QueryLanes query;
#pragma HLS AGGREGATE variable = query.head
#pragma HLS ARRAY_PARTITION variable = query.head complete dim = 3
  int32_t initial[kMaxGroup];
#pragma HLS ARRAY_PARTITION variable = initial complete
  Outcome outcome;
#pragma HLS ARRAY_PARTITION variable = outcome.total complete

  const Status status = check_record(request);
  if (status != kOk) return status;
  const Status runs = check_runs(request, commands);
  if (runs != kOk) return runs;
  query_layout(request, commands, initial, query);
  stream_blocks(request, commands, keys, query, initial, store, bitmap, outcome);
  if (request.mode == kTopK) {
    const uint32_t count = select_blocks(request, store, outcome, heap);
    write_pairs(write_summary(request, outcome, count, bitmap, results), count, heap, results);
  } else {
    const uint64_t next = write_summary(request, outcome, request.shape.blocks, bitmap, results);
    write_tiles(next, request.shape, store, results);
  }
  return kOk;
}

}  // namespace nearkv

extern "C" void nearkv_kernel(uint32_t requests, const nearkv::MemoryWord* commands,
                              const nearkv::MemoryWord* keys, nearkv::MemoryWord* results) {
#pragma HLS INTERFACE s_axilite bundle = control port = requests
#pragma HLS INTERFACE s_axilite bundle = control port = commands
#pragma HLS INTERFACE s_axilite bundle = control port = keys
#pragma HLS INTERFACE s_axilite bundle = control port = results
#pragma HLS INTERFACE s_axilite bundle = control port = return
#pragma HLS INTERFACE ap_ctrl_chain port = return
#pragma HLS INTERFACE m_axi bundle = gmem port = commands offset = slave max_read_burst_length = 64
#pragma HLS INTERFACE m_axi bundle = gmem port = results offset = slave max_write_burst_length = 64
#pragma HLS INTERFACE m_axi bundle = keys port = keys offset = slave max_read_burst_length = \
    64 num_read_outstanding = 32
  using namespace nearkv;
  if (requests == 0) return;
  Status status = kOk;
  uint32_t completed = 0;
  for (uint32_t i = 0; i < requests && status == kOk; ++i) {
    status = run_request(request_of(load(commands[i])), commands, keys, results);
    if (status == kOk) ++completed;
  }
  Beat record = {};
  set_word32(record, 0, status);
  set_word32(record, 1, completed);
  set_word32(record, 2, completed);
  set_word32(record, 3, kInterfaceVersion);
  results[0] = stored(record);
}
