// Mode TOPK, once the totals are known: reads every row of the store, turns it into a priority, sorts and keeps the
// best, and packs them eight pairs to a beat. One row a cycle; then about 2^level cycles each for the last chunk to
// leave the sorter and for the best to go out.
`default_nettype none

module nkv_select
  import nearkv_pkg::*;
#(
    parameter int unsigned STORE_ROWS = DEFAULT_STORE_ROWS,
    parameter int unsigned READ_LATENCY = 3
) (
    input  wire logic                          clk,
    input  wire logic                          rst_n,
    output logic                               idle,
    input  wire logic                          start,  // one cycle, when idle
    input  wire logic [4:0]                    group,
    input  wire logic [POSITION_BITS-1:0]      blocks,
    input  wire logic [POSITION_BITS-1:0]      candidates,  // with `start`: blocks with tokens, 1 or more
    input  wire logic [K_BITS-1:0]             count,  // with `start`: min(k, candidates)
    input  wire logic [31:0]                   totals[MAX_GROUP],
    output logic                               read,
    output logic [$clog2(STORE_ROWS)-1:0]      read_row,
    input  wire logic [HEADS*32-1:0]           read_data,
    output logic                               out_valid,
    input  wire logic                          out_ready,
    output logic [BEAT_BITS-1:0]               out_data
);
  localparam int unsigned QUEUE = 16;  // more than the rows under way
  localparam int unsigned CHUNK_BITS = POSITION_BITS + 1;

  // ---- chunk size: the smallest that holds `count` -----------------------------------------------------------------
  logic [3:0] level, level_next;
  logic [POSITION_BITS-1:0] chunks;
  logic [POSITION_BITS-1:0] expected;  // candidates of the selection under way
  logic [K_BITS-1:0] wanted;
  logic [CHUNK_BITS-1:0] padded, entered;
  logic start_keep;
  always_comb begin
    level_next = 4'(MIN_SORT_LEVEL);
    for (int i = MIN_SORT_LEVEL; i < SORT_LEVELS; i++) if (count > K_BITS'(1 << i)) level_next = 4'(i + 1);
  end

  // ---- rows ------------------------------------------------------------------------------------------------------
  wire logic two_halves = group > 5'(HEADS);
  logic reading, half;
  logic [POSITION_BITS-1:0] position;
  logic [$clog2(QUEUE+1)-1:0] due;  // rows read whose candidate has not left the queue
  logic [READ_LATENCY-1:0] row_valid, row_half;
  logic [POSITION_BITS-1:0] row_position[READ_LATENCY];
  logic candidate_pop;

  assign read = reading && due != ($clog2(QUEUE + 1))'(QUEUE);
  assign read_row = two_halves ? ($clog2(STORE_ROWS))'({position, half}) : ($clog2(STORE_ROWS))'(position);
  wire logic row_last_half = half == two_halves;

  logic scored_valid;
  candidate_t scored, candidate;
  nkv_priority priority_of_row (
      .clk,
      .rst_n,
      .group,
      .totals,
      .row_valid(row_valid[READ_LATENCY-1]),
      .row_half(row_half[READ_LATENCY-1]),
      .row_position(row_position[READ_LATENCY-1]),
      .row(read_data),
      .out_valid(scored_valid),
      .out(scored)
  );
  logic candidate_valid, unused_ready;
  logic [$clog2(QUEUE+1)-1:0] queued;
  nkv_fifo #(
      .WIDTH($bits(candidate_t)),
      .DEPTH(QUEUE)
  ) queue (
      .clk,
      .rst_n,
      .in_valid(scored_valid),
      .in_ready(unused_ready),
      .in_data(scored),
      .out_valid(candidate_valid),
      .out_ready(candidate_pop),
      .out_data(candidate),
      .count(queued)
  );

  // ---- into the sorter: blocks without tokens are left out, the last chunk is filled up -----------------------------
  wire logic all_candidates = entered >= {1'b0, expected};
  wire logic padding = all_candidates && entered < padded;
  logic sort_ready, sorted_valid, sorted_ready, keep_idle;
  candidate_t sort_in, sorted, best;
  always_comb sort_in = padding ? '0 : candidate;
  wire logic sort_valid = padding || (candidate_valid && candidate.exists);
  wire logic enter = sort_valid && sort_ready;
  assign idle = keep_idle && !start_keep && !reading && due == 0;
  assign candidate_pop = candidate_valid && (!candidate.exists || (sort_ready && !padding));

  always_ff @(posedge clk) begin
    if (start) begin
      level <= level_next;
      expected <= candidates;
      wanted <= count;
    end
    row_position[0] <= position;
    for (int i = 1; i < READ_LATENCY; i++) row_position[i] <= row_position[i-1];
    row_half <= READ_LATENCY'({row_half, half});
    if (!rst_n) begin
      reading <= 1'b0;
      start_keep <= 1'b0;
      row_valid <= '0;
      due <= '0;
      entered <= '0;
      padded <= '0;
      position <= '0;
      half <= 1'b0;
    end else begin
      start_keep <= start;
      row_valid <= READ_LATENCY'({row_valid, read});
      due <= due + ($clog2(QUEUE + 1))'(read && row_last_half) - ($clog2(QUEUE + 1))'(candidate_pop);
      if (start) begin
        reading <= 1'b1;
        position <= '0;
        half <= 1'b0;
        entered <= '0;
      end else begin
        if (read) begin
          half <= !row_last_half;
          if (row_last_half) begin
            position <= position + 1'b1;
            if (position == blocks - 1'b1) reading <= 1'b0;
          end
        end
        if (enter) entered <= entered + 1'b1;
      end
      if (start) padded <= '0;
      else if (start_keep) padded <= {1'b0, chunks} << level;
    end
  end
  assign chunks = POSITION_BITS'((CHUNK_BITS'(expected) + (CHUNK_BITS'(1) << level) - 1'b1) >> level);

  nkv_merge_sorter sorter (
      .clk,
      .rst_n,
      .level,
      .in_valid(sort_valid),
      .in_ready(sort_ready),
      .in(sort_in),
      .out_valid(sorted_valid),
      .out_ready(sorted_ready),
      .out(sorted)
  );

  logic best_valid, best_ready;
  nkv_keep_best keep_best (
      .clk,
      .rst_n,
      .start(start_keep),
      .level,
      .chunks,
      .count(wanted),
      .idle(keep_idle),
      .in_valid(sorted_valid),
      .in_ready(sorted_ready),
      .in(sorted),
      .out_valid(best_valid),
      .out_ready(best_ready),
      .out(best)
  );

  nkv_pack_pairs pack (
      .clk,
      .rst_n,
      .start,
      .count,
      .in_valid(best_valid),
      .in_ready(best_ready),
      .in_position(32'(best.position)),
      .in_priority(32'(best.share)),
      .out_valid,
      .out_ready,
      .out_data
  );
  wire logic unused = &{1'b0, unused_ready, queued, best.exists};
endmodule

`default_nettype wire
