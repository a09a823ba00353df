// Keeps the best 2^level of sorted chunks: each chunk is merged with the best so far into the other half of a block
// RAM, and what does not fit is forgotten; the merge of the last chunk goes out instead, `count` candidates long.
`default_nettype none

module nkv_keep_best
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVELS = SORT_LEVELS
) (
    input  wire logic                      clk,
    input  wire logic                      rst_n,
    input  wire logic                      start,   // one cycle, when idle
    input  wire logic [3:0]                level,
    input  wire logic [POSITION_BITS-1:0]  chunks,  // 1 or more
    input  wire logic [K_BITS-1:0]         count,   // 1..2^level
    output logic                           idle,
    input  wire logic                      in_valid,
    output logic                           in_ready,
    input  wire candidate_t                in,
    output logic                           out_valid,
    input  wire logic                      out_ready,
    output candidate_t                     out
);
  localparam int unsigned WIDTH = $bits(candidate_t);
  localparam int unsigned AW = LEVELS + 1;

  logic [POSITION_BITS-1:0] chunk_in, chunk;  // entering, merging
  logic [LEVELS:0] index_in, emitted;
  logic active;
  wire logic [LEVELS:0] size = (LEVELS + 1)'(1) << level;
  wire logic last_chunk = chunk + 1'b1 == chunks;

  // ---- chunks arrive in two halves of a RAM ------------------------------------------------------------------------
  (* ram_style = "block" *) logic [WIDTH-1:0] fresh[1<<AW];
  wire logic [1:0] ahead = 2'(chunk_in - chunk);
  assign in_ready = active && ahead != 2'd2 && chunk_in != chunks;  // 3: the tail of a chunk that was merged without it
  wire logic enter = in_valid && in_ready;
  wire logic chunk_entered = enter && index_in == size - 1'b1;

  // ---- merge step -----------------------------------------------------------------------------------------------
  logic a_valid, b_valid;
  candidate_t a, b;
  logic take_a, take_b;
  wire logic have_a = chunk != 0;
  wire logic a_wins = have_a && {a.exists, a.share} >= {b.exists, b.share};
  wire logic can = active && b_valid && (a_valid || !have_a);
  wire logic room = last_chunk ? (!out_valid || out_ready) : 1'b1;
  wire logic step = can && room;
  wire logic merged = step && emitted == (last_chunk ? (LEVELS + 1)'(count) : size) - 1'b1;
  assign take_a = step && a_wins;
  assign take_b = step && !a_wins;

  (* ram_style = "block" *) logic [WIDTH-1:0] best[1<<AW];
  candidate_t winner;
  always_comb winner = a_wins ? a : b;
  always_ff @(posedge clk) begin
    if (enter) fresh[{chunk_in[0], index_in[LEVELS-1:0]}] <= in;
    if (step && !last_chunk) best[{!chunk[0], emitted[LEVELS-1:0]}] <= winner;
  end

  // ---- both runs are read ahead -----------------------------------------------------------------------------------
  // fresh entries exist once written; the best so far is complete when a merge starts. A chunk may be merged before its
  // tail has arrived, when everything so far was better: then nothing of the next one is there.
  logic [LEVELS:0] a_index, b_index;
  logic a_read, b_read, a_arrives, b_arrives;
  logic [WIDTH-1:0] a_data, b_data;
  logic [2:0] a_count, b_count;
  wire logic written = (ahead == 0) ? b_index < index_in : !ahead[1] || !ahead[0];
  assign a_read = active && chunk != chunks && have_a && a_index != size && a_count + 3'(a_arrives) < 3'd4;
  assign b_read = active && chunk != chunks && b_index != size && written && b_count + 3'(b_arrives) < 3'd4;
  always_ff @(posedge clk) begin
    if (a_read) a_data <= best[{chunk[0], a_index[LEVELS-1:0]}];
    if (b_read) b_data <= fresh[{chunk[0], b_index[LEVELS-1:0]}];
  end
  logic a_ready, b_ready;
  nkv_fifo #(.WIDTH(WIDTH), .DEPTH(4)) ahead_a (
      .clk, .rst_n(rst_n && !merged), .in_valid(a_arrives), .in_ready(a_ready), .in_data(a_data),
      .out_valid(a_valid), .out_ready(take_a), .out_data(a), .count(a_count)
  );
  nkv_fifo #(.WIDTH(WIDTH), .DEPTH(4)) ahead_b (
      .clk, .rst_n(rst_n && !merged), .in_valid(b_arrives), .in_ready(b_ready), .in_data(b_data),
      .out_valid(b_valid), .out_ready(take_b), .out_data(b), .count(b_count)
  );

  assign idle = !active && !out_valid;

  always_ff @(posedge clk) begin
    if (step && last_chunk) out <= winner;
    if (!rst_n) begin
      active <= 1'b0;
      out_valid <= 1'b0;
      a_arrives <= 1'b0;
      b_arrives <= 1'b0;
      chunk <= '0;
      chunk_in <= '0;
      index_in <= '0;
      emitted <= '0;
      a_index <= '0;
      b_index <= '0;
    end else begin
      out_valid <= (step && last_chunk) || (out_valid && !out_ready);
      a_arrives <= a_read && !merged;
      b_arrives <= b_read && !merged;
      if (enter) index_in <= chunk_entered ? '0 : index_in + 1'b1;
      if (merged) begin
        emitted <= '0;
        a_index <= '0;
        b_index <= '0;
      end else begin
        if (step) emitted <= emitted + 1'b1;
        if (a_read) a_index <= a_index + 1'b1;
        if (b_read) b_index <= b_index + 1'b1;
      end
      if (start) begin
        active <= 1'b1;
        chunk <= '0;
        chunk_in <= '0;
      end else begin
        if (merged) chunk <= chunk + 1'b1;
        if (chunk_entered) chunk_in <= chunk_in + 1'b1;
        // The tail of the last chunk may still arrive when the last candidate has gone out.
        if (active && chunk == chunks && chunk_in == chunks) active <= 1'b0;
      end
    end
  end
  wire logic unused = &{1'b0, a_ready, b_ready};
endmodule

`default_nettype wire
