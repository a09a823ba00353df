// The kernel between its masters: fetches requests, scores blocks, selects, and hands results over for writing.
`default_nettype none

module nkv_core
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS
) (
    input  wire logic                     clk,
    input  wire logic                     rst_n,
    input  wire logic                     start,  // one cycle after reset
    input  wire logic [31:0]              requests,
    input  wire logic [ADDRESS_BITS-1:0]  commands,
    input  wire logic [ADDRESS_BITS-1:0]  keys,
    input  wire logic [ADDRESS_BITS-1:0]  results,
    output status_t                       error,      // level
    output logic                          completed,  // one cycle, for each request
    output logic                          beat_taken,
    output logic                          request_begins,

    output logic                          fetch_valid,
    input  wire logic                     fetch_ready,
    output transfer_t                     fetch,
    input  wire logic                     command_valid,
    output logic                          command_ready,
    input  wire logic [BEAT_BITS-1:0]     command_beat,
    input  wire logic                     command_error,

    output logic                          keys_valid,
    input  wire logic                     keys_ready,
    output transfer_t                     keys_read,
    input  wire logic                     beat_valid,
    output logic                          beat_ready,
    input  wire logic [BEAT_BITS-1:0]     beat,
    input  wire logic                     beat_error,

    output logic                          write_valid,
    input  wire logic                     write_ready,
    output transfer_t                     write,
    output logic                          data_valid,
    input  wire logic                     data_ready,
    output logic [BEAT_BITS-1:0]          data,
    input  wire logic                     writer_idle
);
  localparam int unsigned RUNS = 32;  // runs that the key reader may be ahead of the sequencer

  // ---- fetch -----------------------------------------------------------------------------------------------------
  logic fetched_valid, fetched_ready, total_write, query_write, write_bank;
  request_t fetched, next, request;
  logic [HEAD_BITS-1:0] query_head;
  logic [1:0] query_part;
  logic found_valid, found_ready, found_keys_valid, found_keys_ready, run_valid, run_ready;
  run_t found, run;
  transfer_t found_keys;
  nkv_fetch #(.STORE_ROWS(STORE_ROWS)) fetcher (
      .clk, .rst_n, .start, .requests, .commands, .keys, .results,
      .read_valid(fetch_valid), .read_ready(fetch_ready), .read(fetch),
      .beat_valid(command_valid), .beat_ready(command_ready), .beat(command_beat), .beat_error(command_error),
      .request_valid(fetched_valid), .request_ready(fetched_ready), .request(fetched), .bank_release(completed),
      .total_write, .query_write, .write_bank, .query_head, .query_part,
      .run_valid(found_valid), .run_ready(found_ready), .run(found),
      .keys_valid(found_keys_valid), .keys_ready(found_keys_ready), .keys_read(found_keys)
  );

  logic next_valid, next_ready;
  logic [1:0] nexts;
  logic [$clog2(RUNS+1)-1:0] runs, key_reads;
  nkv_fifo #(.WIDTH($bits(request_t)), .DEPTH(2)) request_queue (
      .clk, .rst_n, .in_valid(fetched_valid), .in_ready(fetched_ready), .in_data(fetched),
      .out_valid(next_valid), .out_ready(next_ready), .out_data(next), .count(nexts)
  );
  nkv_fifo #(.WIDTH($bits(run_t)), .DEPTH(RUNS)) run_queue (
      .clk, .rst_n, .in_valid(found_valid), .in_ready(found_ready), .in_data(found),
      .out_valid(run_valid), .out_ready(run_ready), .out_data(run), .count(runs)
  );
  nkv_fifo #(.WIDTH($bits(transfer_t)), .DEPTH(RUNS)) key_queue (
      .clk, .rst_n, .in_valid(found_keys_valid), .in_ready(found_keys_ready), .in_data(found_keys),
      .out_valid(keys_valid), .out_ready(keys_ready), .out_data(keys_read), .count(key_reads)
  );

  logic [BEAT_BITS-1:0] initial_totals[2];
  always_ff @(posedge clk) if (total_write) initial_totals[write_bank] <= command_beat;

  // ---- one request -------------------------------------------------------------------------------------------------
  status_t request_error, score_error;
  logic begin_request, stream_end, totals_valid, select, select_idle, finish, finished, pairs_valid, pairs_ready;
  logic [POSITION_BITS-1:0] candidates, bad_blocks;
  logic [K_BITS-1:0] pairs;
  logic [BEAT_BITS-1:0] pairs_data;
  nkv_request life (
      .clk, .rst_n, .request_valid(next_valid), .request_ready(next_ready), .request_in(next),
      .start(begin_request), .request, .error(request_error),
      .stream_end, .totals_valid, .candidates, .pairs, .select_idle, .select, .finish,
      .pairs_beat(pairs_valid && pairs_ready), .finished, .writer_idle, .completed
  );
  assign error = (request_error != ST_OK) ? request_error : score_error;
  assign request_begins = begin_request;

  // The FIFO's output multiplexer and the sequencer's decisions do not share a cycle.
  logic key_valid, key_ready, key_error;
  logic [BEAT_BITS-1:0] key;
  nkv_skid #(.WIDTH(BEAT_BITS + 1)) key_register (
      .clk, .rst_n, .in_valid(beat_valid), .in_ready(beat_ready), .in_data({beat_error, beat}),
      .out_valid(key_valid), .out_ready(key_ready), .out_data({key_error, key})
  );
  assign beat_taken = key_valid && key_ready;

  logic mass_valid, mass_ready;
  log_mass_t mass;
  nkv_score score (
      .clk, .rst_n, .start(begin_request), .request, .error(score_error),
      .query_write, .write_bank, .query_head, .query_part, .query_int4(fetched.int4), .query_width(fetched.width),
      .query_beat(command_beat),
      .run_valid, .run_ready, .run,
      .beat_valid(key_valid), .beat_ready(key_ready), .beat(key), .beat_error(key_error),
      .mass_valid, .mass_ready, .mass
  );

  logic store_write, store_read, map_valid, map_ready, tile_valid, tile_ready;
  logic [WAY_BITS-1:0] store_bank;
  logic [$clog2(STORE_ROWS/WAYS)-1:0] store_row, read_row;
  logic [HEADS*32-1:0] store_data;
  logic [WAYS-1:0][HEADS*32-1:0] read_data;
  logic [BEAT_BITS-1:0] map_data, tile_data;
  logic [31:0] totals[MAX_GROUP];
  nkv_masses #(.STORE_ROWS(STORE_ROWS)) masses (
      .clk, .rst_n, .start(begin_request), .request, .initial_total(initial_totals[request.bank]),
      .mass_valid, .mass_ready, .mass, .stream_end, .candidates, .bad_blocks, .totals_valid, .totals,
      .store_write, .store_bank, .store_row, .store_data,
      .map_valid, .map_ready, .map_data, .tile_valid, .tile_ready, .tile_data
  );
  nkv_store #(.ROWS(STORE_ROWS)) store (
      .clk, .write(store_write), .write_bank(store_bank), .write_row(store_row), .write_data(store_data),
      .read(store_read), .read_row, .read_data
  );
  wire logic selecting = !rst_n || select || !select_idle || pairs_valid;
  logic select_clk;
  nkv_sleep select_sleep (.clk, .enable(selecting), .awake_clk(select_clk));
  nkv_select #(.STORE_ROWS(STORE_ROWS)) selection (
      .clk(select_clk), .rst_n, .idle(select_idle), .start(select), .group(request.group), .blocks(request.blocks),
      .count(pairs), .totals, .read(store_read), .read_row, .read_data,
      .out_valid(pairs_valid), .out_ready(pairs_ready), .out_data(pairs_data)
  );

  nkv_results result_writes (
      .clk, .rst_n, .start(begin_request), .request, .pairs, .bad_blocks, .totals, .finish, .finished,
      .map_valid, .map_ready, .map_data, .tile_valid, .tile_ready, .tile_data, .pairs_valid, .pairs_ready, .pairs_data,
      .command_valid(write_valid), .command_ready(write_ready), .command(write),
      .data_valid, .data_ready, .data
  );
  wire logic unused = &{1'b0, nexts, runs, key_reads};
endmodule

`default_nettype wire
