// Keeps the best 2^level of sorted chunks: each chunk is merged with the best so far into the other half of a block
// RAM, and what does not fit is forgotten; the merge of the last chunk goes out instead, `count` candidates long. Like
// nkv_merge_tuples it merges lane by lane and sorts what the lanes give.
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
    input  wire tuple_t                    in,
    output logic                           out_valid,
    input  wire logic                      out_ready,
    output tuple_t                         out
);
  localparam int unsigned WIDTH = $bits(candidate_t);
  localparam int unsigned IW = LEVELS - WAY_BITS;  // index of a tuple in a chunk

  logic [POSITION_BITS-1:0] chunk_in, chunk;  // entering, merging
  logic [IW:0] index_in, emitted;  // tuples
  logic active;
  wire logic [IW:0] size = (IW + 1)'(1) << (level - 4'(WAY_BITS));
  wire logic [IW:0] out_size = (IW + 1)'((count + K_BITS'(WAYS - 1)) >> WAY_BITS);
  wire logic last_chunk = chunk + 1'b1 == chunks;

  // ---- chunks arrive in two halves of a RAM ------------------------------------------------------------------------
  (* ram_style = "block" *) tuple_t fresh[2<<IW];
  wire logic [1:0] ahead = 2'(chunk_in - chunk);
  assign in_ready = active && ahead != 2'd2 && chunk_in != chunks;  // 3: the tail of a chunk that was merged without it
  wire logic enter = in_valid && in_ready;
  wire logic chunk_entered = enter && index_in == size - 1'b1;

  // ---- merge step, in every lane at once ---------------------------------------------------------------------------
  wire logic have_a = chunk != 0;
  logic [WAYS-1:0] a_valid, b_valid;
  logic sort_ready;
  tuple_t winners;
  wire logic step = active && &b_valid && (&a_valid || !have_a) && sort_ready;
  wire logic merged = step && emitted == (last_chunk ? out_size : size) - 1'b1;

  // ---- both runs are read ahead -----------------------------------------------------------------------------------
  // fresh tuples exist once written; the best so far is complete when its end is read (a chunk is longer than the way
  // through the network). A chunk may be merged before its tail has arrived, when everything so far was better: then
  // nothing of the next one is there.
  (* ram_style = "block" *) tuple_t best[2<<IW];
  logic [IW:0] a_index, b_index;
  logic a_arrives, b_arrives;
  tuple_t a_data, b_data;
  logic [WAYS-1:0] a_room, b_room;
  wire logic written = (ahead == 0) ? b_index < index_in : !ahead[1] || !ahead[0];
  wire logic a_read = active && chunk != chunks && have_a && a_index != size && &a_room;
  wire logic b_read = active && chunk != chunks && b_index != size && written && &b_room;
  always_ff @(posedge clk) begin
    if (enter) fresh[{chunk_in[0], index_in[IW-1:0]}] <= in;
    if (a_read) a_data <= best[{chunk[0], a_index[IW-1:0]}];
    if (b_read) b_data <= fresh[{chunk[0], b_index[IW-1:0]}];
  end

  for (genvar i = 0; i < WAYS; i++) begin : g_lane
    candidate_t a, b;
    logic [2:0] a_count, b_count;
    logic unused_a, unused_b;
    wire logic a_wins = have_a && {a.exists, a.share} >= {b.exists, b.share};
    assign a_room[i] = a_count + 3'(a_arrives) < 3'd4;
    assign b_room[i] = b_count + 3'(b_arrives) < 3'd4;
    nkv_fifo #(.WIDTH(WIDTH), .DEPTH(4)) ahead_a (
        .clk, .rst_n(rst_n && !merged), .in_valid(a_arrives), .in_ready(unused_a), .in_data(a_data[i]),
        .out_valid(a_valid[i]), .out_ready(step && a_wins), .out_data(a), .count(a_count)
    );
    nkv_fifo #(.WIDTH(WIDTH), .DEPTH(4)) ahead_b (
        .clk, .rst_n(rst_n && !merged), .in_valid(b_arrives), .in_ready(unused_b), .in_data(b_data[WAYS-1-i]),
        .out_valid(b_valid[i]), .out_ready(step && !a_wins), .out_data(b), .count(b_count)
    );
    always_comb winners[i] = a_wins ? a : b;
    wire logic unused = &{1'b0, unused_a, unused_b};
  end

  // ---- sorted tuples go back to the RAM, or out ----------------------------------------------------------------------
  logic sort_empty, sorted_valid, sorted_last;
  logic [IW:0] sorted_address;
  nkv_sort_tuple #(
      .INFO_BITS(IW + 2)
  ) order (
      .clk,
      .rst_n,
      .empty(sort_empty),
      .in_valid(step),
      .in_ready(sort_ready),
      .in(winners),
      .in_info({last_chunk, !chunk[0], emitted[IW-1:0]}),
      .out_valid(sorted_valid),
      .out_ready(!sorted_last || out_ready),
      .out,
      .out_info({sorted_last, sorted_address})
  );
  assign out_valid = sorted_valid && sorted_last;
  assign idle = !active && sort_empty;

  always_ff @(posedge clk) begin
    if (sorted_valid && !sorted_last) best[sorted_address] <= out;
    if (!rst_n) begin
      active <= 1'b0;
      a_arrives <= 1'b0;
      b_arrives <= 1'b0;
      chunk <= '0;
      chunk_in <= '0;
      index_in <= '0;
      emitted <= '0;
      a_index <= '0;
      b_index <= '0;
    end else begin
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
endmodule

`default_nettype wire
