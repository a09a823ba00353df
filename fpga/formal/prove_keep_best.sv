// nkv_keep_best: of all candidates of up to three sorted chunks, exactly the `count` best come out, best first, unchanged
// and each once; ties go to the lower position. Followed for any one candidate, `watched`: either it comes out, or
// everything that does is better. The chunks are the shortest that the module allows, of four tuples. With STEADY whole
// selections are decided; without, their beginning.
`default_nettype none

module prove_keep_best
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVELS = WAY_BITS + 2,
    parameter bit STEADY = 1'b0  // neither side ever waits
) (
    input wire logic                       clk,
    input wire logic [1:0]                 chunks,
    input wire logic [LEVELS:0]            count,
    input wire logic [LEVELS+1:0]          candidates,  // that exist: the last chunk may be filled up
    input wire logic                       in_valid,
    input wire logic [WAYS-1:0][LEVELS+1:0] in_position,
    input wire logic [WAYS-1:0]            in_share,
    input wire logic                       out_ready,
    input wire logic [LEVELS+1:0]          watched
);
  localparam int unsigned W = LEVELS + 2;  // positions
  localparam int unsigned MOST_SILENT = 2 * (1 << (LEVELS - WAY_BITS)) + 8;  // a merge, and filling its pipeline
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  localparam logic [3:0] LEVEL = 4'(LEVELS);
  logic idle, in_ready, out_valid, running;
  wire logic start = rst_n && idle && !running;  // one selection after the other
  tuple_t in, out;
  logic [W-1:0] entered, left;  // candidates
  logic [4:0] silent;
  always_comb begin
    in = '0;
    for (int i = 0; i < WAYS; i++) begin
      if (entered + W'(i) < candidates) in[i] = '{1'b1, PRIORITY_BITS'(in_share[i]), POSITION_BITS'(in_position[i])};
    end
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
  logic [W-1:0] last_candidates, last_watched;
  logic [1:0] last_chunks;
  logic [LEVELS:0] last_count;
  candidate_t last_in, last_left, value;
  tuple_t last_out;
  localparam logic [W-1:0] SIZE = W'(1) << LEVELS;
  wire logic [W-1:0] all = W'(chunks) << LEVELS;
  wire logic first_of_chunk = (entered & (SIZE - 1'b1)) == 0;
  wire logic enter = in_valid && in_ready;
  wire logic leave = out_valid && out_ready;
  wire logic finished = running && idle;

  // What of a tuple counts, what of it is the watched candidate, and what of it is in order.
  logic [WAYS-1:0] counts, in_watched, out_watched, in_chunk, in_order, exists, in_falls, same;
  candidate_t watched_in, last_of_in, last_of_out;
  always_comb begin
    watched_in = '0;
    last_of_in = last_in;
    last_of_out = last_left;
    for (int i = 0; i < WAYS; i++) begin
      in_watched[i] = in[i].exists && in_position[i] == watched;
      if (in_watched[i]) watched_in = in[i];
      in_chunk[i] = (in_position[i] >> LEVELS) == (entered >> LEVELS);
      in_order[i] = !in[i].exists || (i == 0 && first_of_chunk) || better(last_of_in, in[i]);
      last_of_in = in[i];
      counts[i] = left + W'(i) < W'(count);
      out_watched[i] = counts[i] && out[i].position == POSITION_BITS'(watched);
      exists[i] = !counts[i] || out[i].exists;
      in_falls[i] = !counts[i] || (i == 0 && left == 0) || better(last_of_out, out[i]);
      same[i] = !out_watched[i] || (followed && out[i] == value);
      if (counts[i]) last_of_out = out[i];
    end
  end

  initial begin
    running = 1'b0;
    offered = 1'b0;
    after_reset = 1'b0;
  end

  always_ff @(posedge clk) begin
    // The request: constant while it runs.
    {last_chunks, last_count, last_candidates, last_watched} <= {chunks, count, candidates, watched};
    after_reset <= rst_n;
    assume (!STEADY || (in_valid && out_ready));
    assume (chunks != 0 && count != 0 && W'(count) <= SIZE);
    assume (W'(count) <= candidates && candidates <= all && candidates > all - SIZE);
    assume (!(running || start) || !after_reset
            || {last_chunks, last_count, last_candidates} == {chunks, count, candidates});
    assume (!after_reset || last_watched == watched);
    // The input: chunks are sorted, their positions follow each other, the followed position comes once.
    assume (!in_valid || (&in_chunk && &in_order));
    assume (!in_valid || in_watched == 0 || (!followed && $onehot(in_watched)));

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
        entered <= entered + W'(WAYS);
        last_in <= last_of_in;
        if (in_watched != 0) begin
          followed <= 1'b1;
          value <= watched_in;
        end
      end
      if (leave) begin
        left <= left + W'(WAYS);
        last_left <= last_of_out;
        if (out_watched != 0) seen <= 1'b1;
      end
      silent <= (in_valid && out_ready && !enter && !leave) ? silent + 1'b1 : '0;
    end

    if (rst_n) begin
      quiet_when_idle: assert (running || !(in_ready || out_valid));
      stays: assert (!offered || (out_valid && out == last_out));
      no_more: assert (!out_valid || left < W'(count));
      no_padding: assert (!out_valid || &exists);
      sorted: assert (!out_valid || &in_falls);
      unchanged: assert (!out_valid || &same);
      once: assert (!out_valid || $onehot0(out_watched) && (out_watched == 0 || !seen));
      all_in: assert (!finished || entered == all);
      all_out: assert (!finished || left >= W'(count));
      the_best: assert (!finished || !followed || seen || better(last_left, value));
      no_hang: assert (!running || silent < 5'(MOST_SILENT));
      whole_selection: cover (finished && chunks == 2'd3);
      later_beats_earlier: cover (finished && chunks == 2'd3 && seen && (watched >> LEVELS) == W'(2));
    end
  end
endmodule

`default_nettype wire
