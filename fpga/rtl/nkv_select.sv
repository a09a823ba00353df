// Mode TOPK, once the totals are known: reads every row of the store, turns it into a priority, sorts and keeps the
// best, and packs them eight pairs to a beat. WAYS rows a cycle; then about 2^level / WAYS cycles each for the last
// chunk to leave the sorter and for the best to go out.
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
    input  wire logic [4:0]                    group,  // with `start`, like the next two, and constant until idle
    input  wire logic [POSITION_BITS-1:0]      blocks,
    input  wire logic [K_BITS-1:0]             count,  // pairs to give, 1 or more
    input  wire logic [31:0]                   totals[MAX_GROUP],
    output logic                               read,
    output logic [$clog2(STORE_ROWS/WAYS)-1:0] read_row,
    input  wire logic [WAYS-1:0][HEADS*32-1:0] read_data,
    output logic                               out_valid,
    input  wire logic                          out_ready,
    output logic [BEAT_BITS-1:0]               out_data
);
  localparam int unsigned QUEUE = 16;  // more than the rows under way
  localparam int unsigned ROW_BITS = $clog2(STORE_ROWS / WAYS);
  localparam int unsigned INDEX_BITS = POSITION_BITS - WAY_BITS;  // of a tuple of blocks
  localparam int unsigned TUPLE_BITS = INDEX_BITS + 1;  // tuples of whole chunks

  // ---- chunk size: the smallest that holds `count` -----------------------------------------------------------------
  logic [3:0] level, level_next;
  logic [K_BITS-1:0] wanted;
  logic [POSITION_BITS-1:0] total;  // blocks
  logic two_halves;
  logic [TUPLE_BITS-1:0] padded, entered;
  logic start_keep;
  always_comb begin
    level_next = 4'(MIN_SORT_LEVEL);
    for (int i = MIN_SORT_LEVEL; i < SORT_LEVELS; i++) if (count > K_BITS'(1 << i)) level_next = 4'(i + 1);
  end
  wire logic [POSITION_BITS-1:0] chunks =
      POSITION_BITS'(({1'b0, total} + ((POSITION_BITS + 1)'(1) << level) - 1'b1) >> level);

  // ---- rows ------------------------------------------------------------------------------------------------------
  wire logic [INDEX_BITS-1:0] last_index = INDEX_BITS'((total - 1'b1) >> WAY_BITS);
  logic reading, half;
  logic [INDEX_BITS-1:0] index;
  logic [$clog2(QUEUE+1)-1:0] due;  // tuples read that have not left the queue
  logic [READ_LATENCY-1:0] row_valid, row_half;
  logic [INDEX_BITS-1:0] row_index[READ_LATENCY];
  logic queue_pop;

  assign read = reading && due != ($clog2(QUEUE + 1))'(QUEUE);
  assign read_row = two_halves ? ROW_BITS'({index, half}) : ROW_BITS'(index);
  wire logic row_last_half = half == two_halves;

  logic [WAYS-1:0] scored_valid;
  tuple_t scored, queued;
  for (genvar way = 0; way < WAYS; way++) begin : g_way
    wire logic [POSITION_BITS-1:0] position = {row_index[READ_LATENCY-1], WAY_BITS'(way)};
    candidate_t candidate;
    nkv_priority priority_of_row (
        .clk,
        .rst_n,
        .group,
        .totals,
        .row_valid(row_valid[READ_LATENCY-1]),
        .row_exists(position < total),
        .row_half(row_half[READ_LATENCY-1]),
        .row_position(position),
        .row(read_data[way]),
        .out_valid(scored_valid[way]),
        .out(candidate)
    );
    always_comb scored[way] = candidate;
  end
  logic queue_valid, unused_ready;
  logic [$clog2(QUEUE+1)-1:0] unused_count;
  nkv_fifo #(
      .WIDTH($bits(tuple_t)),
      .DEPTH(QUEUE)
  ) queue (
      .clk,
      .rst_n,
      .in_valid(scored_valid[0]),
      .in_ready(unused_ready),
      .in_data(scored),
      .out_valid(queue_valid),
      .out_ready(queue_pop),
      .out_data(queued),
      .count(unused_count)
  );

  // ---- into the sorter: the last chunk is filled up with nothing, as are the places of blocks without tokens ----------
  wire logic padding = entered > {1'b0, last_index} && entered < padded;
  logic sort_ready, sorted_valid, sorted_ready, keep_idle;
  tuple_t sorted, best;
  wire logic enter = (padding || queue_valid) && sort_ready;
  assign idle = keep_idle && !start_keep && !reading && due == 0;
  assign queue_pop = queue_valid && sort_ready && !padding;

  always_ff @(posedge clk) begin
    if (start) begin
      level <= level_next;
      wanted <= count;
      total <= blocks;
      two_halves <= group > 5'(HEADS);
    end
    row_index[0] <= index;
    for (int i = 1; i < READ_LATENCY; i++) row_index[i] <= row_index[i-1];
    row_half <= READ_LATENCY'({row_half, half});
    if (!rst_n) begin
      reading <= 1'b0;
      start_keep <= 1'b0;
      row_valid <= '0;
      due <= '0;
      entered <= '0;
      padded <= '0;
      index <= '0;
      half <= 1'b0;
    end else begin
      start_keep <= start;
      row_valid <= READ_LATENCY'({row_valid, read});
      due <= due + ($clog2(QUEUE + 1))'(read && row_last_half) - ($clog2(QUEUE + 1))'(queue_pop);
      if (start) begin
        reading <= 1'b1;
        index <= '0;
        half <= 1'b0;
        entered <= '0;
      end else begin
        if (read) begin
          half <= !row_last_half;
          if (row_last_half) begin
            index <= index + 1'b1;
            if (index == last_index) reading <= 1'b0;
          end
        end
        if (enter) entered <= entered + 1'b1;
      end
      if (start) padded <= '0;
      else if (start_keep) padded <= TUPLE_BITS'(chunks) << (level - 4'(WAY_BITS));
    end
  end

  nkv_merge_sorter sorter (
      .clk,
      .rst_n,
      .level,
      .in_valid(padding || queue_valid),
      .in_ready(sort_ready),
      .in(padding ? '0 : queued),
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
      .in(best),
      .out_valid,
      .out_ready,
      .out_data
  );
  wire logic unused = &{1'b0, unused_ready, unused_count, scored_valid};
endmodule

`default_nettype wire
