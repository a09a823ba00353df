// Walks the request list: record, T0, queries, run descriptors; one request ahead of the one that streams. What is
// wrong travels in order as a request or a run with an error, so that everything before it still completes.
`default_nettype none

module nkv_fetch
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS
) (
    input  wire logic                     clk,
    input  wire logic                     rst_n,
    input  wire logic                     start,
    input  wire logic [31:0]              requests,
    input  wire logic [ADDRESS_BITS-1:0]  commands,
    input  wire logic [ADDRESS_BITS-1:0]  keys,
    input  wire logic [ADDRESS_BITS-1:0]  results,

    output logic                          read_valid,
    input  wire logic                     read_ready,
    output transfer_t                     read,
    input  wire logic                     beat_valid,
    output logic                          beat_ready,
    input  wire logic [BEAT_BITS-1:0]     beat,
    input  wire logic                     beat_error,

    output logic                          request_valid,
    input  wire logic                     request_ready,
    output request_t                      request,
    input  wire logic                     bank_release,

    output logic                          total_write,  // T0 of the request, in the beat
    output logic                          query_write,
    output logic                          write_bank,
    output logic [HEAD_BITS-1:0]          query_head,
    output logic [1:0]                    query_part,  // which 64 values of the row

    output logic                          run_valid,
    input  wire logic                     run_ready,
    output run_t                          run,
    output logic                          keys_valid,  // the run's blocks, for the key reader
    input  wire logic                     keys_ready,
    output transfer_t                     keys_read
);
  typedef enum logic [3:0] {
    IDLE, ASK_RECORD, RECORD, BANK, ASK_QUERY, ASK_RUNS, TOTAL, QUERY, PUSH, RUN_HEAD, RUN_TAIL, DEAD
  } state_t;
  state_t state;

  logic [31:0] left;  // requests still to fetch, this one included
  logic [31:0] runs_left;
  logic [POSITION_BITS-1:0] blocks_left;
  logic [ADDRESS_BITS-1:0] record_address, query_address, run_address;
  logic [1:0] banks_used;
  logic bank;
  request_t checked, current;
  logic [ADDRESS_BITS-1:0] checked_queries, checked_descriptors;
  logic [31:0] checked_runs;
  logic [BEAT_BITS-1:0] head_beat;
  logic head_error;

  nkv_check #(.STORE_ROWS(STORE_ROWS)) check (
      .record(beat),
      .read_error(beat_error),
      .commands,
      .keys,
      .results,
      .request(checked),
      .queries(checked_queries),
      .descriptors(checked_descriptors),
      .runs(checked_runs)
  );

  // Rows of 32 values take a whole beat, too.
  wire logic [1:0] last_part = {current.width[1] & current.width[0], current.width[1]};
  wire logic [2:0] parts = 3'(last_part) + 3'd1;

  always_comb begin
    read_valid = state == ASK_RECORD || state == ASK_QUERY || state == ASK_RUNS;
    unique case (state)
      ASK_QUERY: read = '{query_address, BEATS_BITS'(1) + BEATS_BITS'(current.group) * BEATS_BITS'(parts)};
      ASK_RUNS:  read = '{run_address, BEATS_BITS'({runs_left, 1'b0})};
      default:   read = '{record_address, BEATS_BITS'(1)};
    endcase
  end

  // ---- run descriptors -----------------------------------------------------------------------------------------
  wire logic [31:0] run_blocks = head_beat[8*8+:32];
  wire logic run_sum_bad = run_blocks == 0 || run_blocks > 32'(blocks_left)
                           || (runs_left == 32'd1 && run_blocks != 32'(blocks_left));
  status_t run_error;
  always_comb begin
    if (head_error || beat_error) run_error = ST_COMMAND_READ;
    else if (run_sum_bad) run_error = ST_RUNS;
    else if (head_beat[5:0] != 0) run_error = ST_ADDRESS;
    else run_error = ST_OK;

    run.b = beat;
    run.c = head_beat[32*8+:256];
    for (int h = 0; h < MAX_GROUP; h++) run.r[h] = head_beat[(16+h)*8+:6];
    run.blocks = run_blocks[POSITION_BITS-1:0];
    run.last = runs_left == 32'd1;
    run.error = run_error;
    keys_read.address = keys + head_beat[63:0];
    // A block is its header and 8 << row beats of payload.
    keys_read.beats = BEATS_BITS'(run.blocks) + (BEATS_BITS'(run.blocks) << (current.row + 3'd3));
  end
  assign run_valid = state == RUN_TAIL && beat_valid && keys_ready;
  assign keys_valid = state == RUN_TAIL && beat_valid && run_ready && run_error == ST_OK;
  wire logic run_taken = state == RUN_TAIL && beat_valid && run_ready && keys_ready;

  // ---- beats -----------------------------------------------------------------------------------------------------
  assign beat_ready = state == RECORD || state == TOTAL || state == QUERY || state == RUN_HEAD
                      || (state == RUN_TAIL && run_ready && keys_ready);
  wire logic take = beat_valid && beat_ready;
  assign total_write = state == TOTAL && take;
  assign query_write = state == QUERY && take;
  assign write_bank = bank;
  assign request_valid = state == PUSH;
  always_comb begin
    request = current;
    request.bank = bank;
  end

  always_ff @(posedge clk) begin
    if (state == RECORD && take) begin
      current <= checked;
      query_address <= checked_queries;
      run_address <= checked_descriptors;
      runs_left <= checked_runs;
      blocks_left <= checked.blocks;
    end
    if ((state == TOTAL || state == QUERY) && take && beat_error) current.error <= ST_COMMAND_READ;
    if (state == RUN_HEAD && take) begin
      head_beat <= beat;
      head_error <= beat_error;
    end
    if (run_taken) begin
      blocks_left <= blocks_left - run.blocks;
      runs_left <= runs_left - 1'b1;
    end
    if (state == TOTAL && take) begin
      query_head <= '0;
      query_part <= '0;
    end else if (query_write) begin
      query_part <= (query_part == last_part) ? '0 : query_part + 1'b1;
      if (query_part == last_part) query_head <= query_head + 1'b1;
    end
    if (start) begin
      record_address <= commands;
      left <= requests;
    end else if (run_taken && runs_left == 32'd1) begin
      record_address <= record_address + 64'd64;
      left <= left - 1'b1;
    end

    if (!rst_n) begin
      state <= IDLE;
      bank <= 1'b0;
      banks_used <= '0;
    end else begin
      banks_used <= banks_used + 2'(state == PUSH && request_ready) - 2'(bank_release);
      if (state == PUSH && request_ready) bank <= !bank;
      unique case (state)
        IDLE: if (start && requests != 0) state <= ASK_RECORD;
        ASK_RECORD: if (read_ready) state <= RECORD;
        RECORD: if (take) state <= (checked.error == ST_OK) ? BANK : PUSH;
        BANK: if (banks_used != 2'd2) state <= ASK_QUERY;
        // The descriptors are on their way while the query arrives, so that their latency does not count.
        ASK_QUERY: if (read_ready) state <= ASK_RUNS;
        ASK_RUNS: if (read_ready) state <= TOTAL;
        TOTAL: if (take) state <= QUERY;
        QUERY:
        if (take && query_part == last_part && query_head == HEAD_BITS'(current.group - 5'd1)) state <= PUSH;
        PUSH: if (request_ready) state <= (current.error == ST_OK) ? RUN_HEAD : DEAD;
        RUN_HEAD: if (take) state <= RUN_TAIL;
        RUN_TAIL:
        if (run_taken) begin
          if (run_error != ST_OK) state <= DEAD;
          else if (runs_left == 32'd1) state <= (left == 32'd1) ? IDLE : ASK_RECORD;
          else state <= RUN_HEAD;
        end
        default: state <= DEAD;
      endcase
    end
  end
endmodule

`default_nettype wire
