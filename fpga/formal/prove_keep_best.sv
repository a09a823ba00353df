// nkv_keep_best: of all candidates of up to three sorted chunks, exactly the `count` best come out, best first,
// unchanged and each once; ties go to the lower position. Followed for any one candidate, `watched`: either it comes
// out, or everything that does is better.
`default_nettype none

module prove_keep_best
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVELS = 1
) (
    input wire logic                  clk,
    input wire logic [1:0]            chunks,
    input wire logic [2:0]            count,
    input wire logic [3:0]            candidates,  // that exist: the last chunk may be filled up
    input wire logic                  in_valid,
    input wire logic [3:0]            in_position,
    input wire logic [1:0]            in_share,
    input wire logic                  out_ready,
    input wire logic [3:0]            watched
);
  localparam int unsigned MOST_SILENT = 2 * (1 << LEVELS) + 4;  // a merge, and filling its pipeline
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  localparam logic [3:0] LEVEL = 4'(LEVELS);
  logic idle, in_ready, out_valid, running;
  wire logic start = rst_n && idle && !running;  // one selection after the other
  candidate_t in, out;
  logic [3:0] entered, left, silent;
  always_comb begin
    in = '0;
    if (entered < candidates) in = '{1'b1, PRIORITY_BITS'(in_share), POSITION_BITS'(in_position)};
  end
  nkv_keep_best #(.LEVELS(LEVELS)) keep_best (
      .clk, .rst_n, .start, .level(LEVEL), .chunks(POSITION_BITS'(chunks)), .count(K_BITS'(count)), .idle,
      .in_valid, .in_ready, .in, .out_valid, .out_ready, .out
  );

  // The order that counts: higher share first, lower position among equals.
  function automatic logic better(input candidate_t a, input candidate_t b);
    return a.share > b.share || (a.share == b.share && a.position < b.position);
  endfunction

  logic offered, followed, seen, after_reset;
  logic [3:0] last_candidates, last_watched;
  logic [1:0] last_chunks;
  logic [2:0] last_count;
  candidate_t last_in, last_out, value;
  localparam logic [3:0] SIZE = 4'd1 << LEVELS;
  wire logic [3:0] all = 4'(chunks) << LEVELS;
  wire logic first_of_chunk = (entered & (SIZE - 4'd1)) == 0;
  wire logic enter = in_valid && in_ready;
  wire logic leave = out_valid && out_ready;
  wire logic finished = running && idle;

  initial begin
    running = 1'b0;
    offered = 1'b0;
    after_reset = 1'b0;
  end

  always_ff @(posedge clk) begin
    // The request: constant while it runs.
    {last_chunks, last_count, last_candidates, last_watched} <= {chunks, count, candidates, watched};
    after_reset <= rst_n;
    assume (chunks != 0 && count != 0 && 4'(count) <= SIZE);
    assume (4'(count) <= candidates && candidates <= all && candidates + SIZE > all);
    assume (!(running || start) || !after_reset
            || {last_chunks, last_count, last_candidates} == {chunks, count, candidates});
    assume (!after_reset || last_watched == watched);
    // The input: chunks are sorted, their positions follow each other, the followed position comes once.
    assume (!in_valid || (in_position >> LEVELS) == (entered >> LEVELS));
    assume (!in_valid || first_of_chunk || entered >= candidates || better(last_in, in));
    assume (!in_valid || entered >= candidates || in_position != watched || !followed);

    offered <= rst_n && out_valid && !out_ready;
    if (out_valid) last_out <= out;
    if (start) begin
      running <= 1'b1;
      entered <= '0;
      left <= '0;
      silent <= '0;
      followed <= 1'b0;
      seen <= 1'b0;
    end else if (running) begin
      running <= !idle;
      if (enter) begin
        entered <= entered + 1'b1;
        last_in <= in;
        if (in.exists && in_position == watched) begin
          followed <= 1'b1;
          value <= in;
        end
      end
      if (leave) begin
        left <= left + 1'b1;
        if (out.position == POSITION_BITS'(watched)) seen <= 1'b1;
      end
      silent <= (in_valid && out_ready && !enter && !leave) ? silent + 1'b1 : '0;
    end

    if (rst_n) begin
      quiet_when_idle: assert (running || !(in_ready || out_valid));
      stays: assert (!offered || (out_valid && out == last_out));
      no_more: assert (!out_valid || left < 4'(count));
      no_padding: assert (!out_valid || out.exists);
      sorted: assert (!out_valid || offered || left == 0 || better(last_out, out));
      unchanged: assert (!out_valid || out.position != POSITION_BITS'(watched) || (followed && out == value));
      once: assert (!out_valid || out.position != POSITION_BITS'(watched) || !seen);
      all_in: assert (!finished || entered == all);
      all_out: assert (!finished || left == 4'(count));
      the_best: assert (!finished || !followed || seen || better(last_out, value));
      no_hang: assert (!running || silent < 4'(MOST_SILENT));
      whole_selection: cover (finished && chunks == 2'd3);
      later_beats_earlier: cover (finished && chunks == 2'd3 && seen && (watched >> LEVELS) == 4'd2);
    end
  end
endmodule

`default_nettype wire
