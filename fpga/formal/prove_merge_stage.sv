// nkv_merge_stage: sorted runs in, sorted runs of twice the length out, and every candidate comes out as often as it
// went in (counted for any one candidate). Equal shares keep their order, so that positions stay ascending. For up to
// 24 candidates, which pass a memory of four per run several times over.
`default_nettype none

module prove_merge_stage
  import nearkv_pkg::*;
(
    input wire logic       clk,
    input wire logic       in_valid,
    input wire logic       in_exists,
    input wire logic [1:0] in_share,
    input wire logic       out_ready,
    input wire logic [2:0] watched  // any candidate's position: constant
);
  localparam int unsigned LEVEL = 1;  // the lemmas below are about runs of two
  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic in_ready, out_valid;
  logic [5:0] entered = '0, left = '0;
  candidate_t in, out;
  assign in.exists = in_exists;
  assign in.share = PRIORITY_BITS'(in_share);
  assign in.position = POSITION_BITS'(entered);  // as the selection numbers them
  nkv_merge_stage #(.LEVEL(LEVEL)) stage (.clk, .rst_n, .in_valid, .in_ready, .in, .out_valid, .out_ready, .out);

  candidate_t last_in = '0, last_out = '0;
  logic offered = 1'b0, started = 1'b0, seen = 1'b0;
  logic [2:0] chosen = '0;
  candidate_t watched_value = '0;
  wire logic in_run = entered[LEVEL-1:0] != 0;
  wire logic out_run = left[LEVEL:0] != 0;
  wire logic higher = {last_out.exists, last_out.share} > {out.exists, out.share};
  wire logic same = {last_out.exists, last_out.share} == {out.exists, out.share};

  // ---- what the stage holds, by how much went in and came out: lemmas that make the properties inductive -----------
  // The j-th candidate of the first runs came as number {j / 2, 0, j % 2}, of the second runs as {j / 2, 1, j % 2}.
  wire logic [5:0] popped = left + 6'(out_valid);
  wire logic [5:0] of_groups = popped - 6'(stage.taken_a) - 6'(stage.taken_b);  // four for each pair of runs merged
  wire logic [5:0] popped_a = {1'b0, of_groups[5:1]} + 6'(stage.taken_a);
  wire logic [5:0] popped_b = {1'b0, of_groups[5:1]} + 6'(stage.taken_b);
  wire logic [5:0] pushed_a = {1'b0, entered[5:2], 1'b0} + (entered[1] ? 6'd2 : {5'd0, entered[0]});
  wire logic [5:0] pushed_b = {1'b0, entered[5:2], 1'b0} + (entered[1] ? {5'd0, entered[0]} : 6'd0);
  wire logic [5:0] index_of_watched = {3'd0, 1'b0, watched[2], watched[0]};
  wire logic under_way = stage.taken_a != 0 || stage.taken_b != 0;
  candidate_t latest;  // the last that left the FIFOs
  always_comb latest = out_valid ? out : last_out;

  function automatic logic precedes(input candidate_t first, input candidate_t second);
    return {first.exists, first.share} > {second.exists, second.share}
           || ({first.exists, first.share} == {second.exists, second.share} && first.position < second.position);
  endfunction
  function automatic logic [5:0] number(input logic second, input logic [5:0] j);
    return {j[4:1], second, j[0]};
  endfunction

  wire logic [5:0] latest_index = (latest.position[1] ? popped_b : popped_a) - 6'd1;
  logic [1:0] slots_right[2];  // of either FIFO
  logic [1:0] runs_sorted[2];
  always_comb begin
    for (int f = 0; f < 2; f++) begin
      slots_right[f] = '1;
      runs_sorted[f] = '1;
      for (int i = 0; i < 4; i++) begin
        automatic logic [5:0] j = (f == 0 ? popped_a : popped_b) + 6'(i);
        automatic candidate_t slot = (f == 0) ? stage.g_small.run_a.memory[j[1:0]] : stage.g_small.run_b.memory[j[1:0]];
        automatic candidate_t earlier = (f == 0) ? stage.g_small.run_a.memory[j[1:0]-2'd1]
                                                 : stage.g_small.run_b.memory[j[1:0]-2'd1];
        if (j < (f == 0 ? pushed_a : pushed_b)) begin
          if (slot.position != POSITION_BITS'(number(1'(f), j))) slots_right[f][0] = 1'b0;
          if (slot.position == POSITION_BITS'(watched) && slot != watched_value) slots_right[f][1] = 1'b0;
          if (i != 0 && j[0] && !precedes(earlier, slot)) runs_sorted[f][0] = 1'b0;
          if (j + 6'd1 == (f == 0 ? pushed_a : pushed_b) && entered[1] == 1'(f) && in_run && slot != last_in)
            runs_sorted[f][1] = 1'b0;
        end
      end
    end
  end

  always_ff @(posedge clk) begin
    started <= 1'b1;
    chosen <= watched;
    assume (!started || watched == chosen);
    assume (!in_valid || !in_run || {last_in.exists, last_in.share} >= {in.exists, in.share});
    assume (!in_valid || entered < 6'd24);
    offered <= rst_n && out_valid && !out_ready;
    if (rst_n) begin
      if (in_valid && in_ready) begin
        entered <= entered + 1'b1;
        last_in <= in;
        if (entered == 6'(watched)) watched_value <= in;
      end
      if (out_valid) last_out <= out;
      if (out_valid && out_ready) begin
        left <= left + 1'b1;
        if (out.position == POSITION_BITS'(watched)) seen <= 1'b1;
      end
      stays: assert (!offered || (out_valid && out == last_out));
      nothing_invented: assert (!out_valid || left < entered);
      sorted: assert (!out_valid || !out_run || offered || higher || (same && last_out.position < out.position));
      of_this_run: assert (!out_valid || out.position[5:LEVEL+1] == left[5:LEVEL+1]);
      once: assert (!out_valid || !seen || out.position != POSITION_BITS'(watched));
      unchanged: assert (!out_valid || out.position != POSITION_BITS'(watched) || out == watched_value);
      all_out: cover (left == 6'd8 && seen);
      // lemmas
      bounded: assert (entered <= 6'd24 && popped <= entered && stage.taken_a <= 2'd2 && stage.taken_b <= 2'd2);
      groups: assert (of_groups[1:0] == 0 && of_groups <= popped && !(stage.taken_a == 2'd2 && stage.taken_b == 2'd2));
      order: assert (popped_a <= pushed_a && popped_b <= pushed_b && stage.entered == entered[1:0]);
      pointers_a: assert (stage.g_small.run_a.read_pointer == popped_a[2:0]
                          && stage.g_small.run_a.write_pointer == pushed_a[2:0]);
      pointers_b: assert (stage.g_small.run_b.read_pointer == popped_b[2:0]
                          && stage.g_small.run_b.write_pointer == pushed_b[2:0]);
      capacity: assert (pushed_a - popped_a <= 6'd4 && pushed_b - popped_b <= 6'd4);
      contents: assert (&slots_right[0] && &slots_right[1]);
      runs: assert (&runs_sorted[0] && &runs_sorted[1]);
      heads: assert (!under_way || ((stage.taken_a != 0 || popped_a != pushed_a)
                                    && (stage.taken_b != 0 || popped_b != pushed_b)));
      head_a: assert (!under_way || stage.taken_a == 2'd2 || popped_a == pushed_a || precedes(latest, stage.a));
      head_b: assert (!under_way || stage.taken_b == 2'd2 || popped_b == pushed_b || precedes(latest, stage.b));
      tail_a: assert (!(under_way && in_run && !entered[1] && popped_a == pushed_a) || latest == last_in);
      tail_b: assert (!(under_way && in_run && entered[1] && popped_b == pushed_b && stage.taken_b == 2'd1)
                      || latest == last_in);
      newest: assert (popped == 0 || latest.position == POSITION_BITS'(number(latest.position[1], latest_index)));
      numbered: assert (entered == 0 || last_in.position == POSITION_BITS'(entered - 6'd1));
      watched_out: assert (!seen || (index_of_watched < (watched[1] ? popped_b : popped_a)));
    end
  end
endmodule

`default_nettype wire
