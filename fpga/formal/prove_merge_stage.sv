// nkv_merge_stage: sorted runs in, sorted runs of twice the length out, and every candidate comes out as often as it
// went in (counted for any one candidate). Equal shares keep their order, so that positions stay ascending.
`default_nettype none

module prove_merge_stage
  import nearkv_pkg::*;
#(
    parameter int unsigned LEVEL = 1
) (
    input wire logic       clk,
    input wire logic       in_valid,
    input wire logic       in_exists,
    input wire logic [1:0] in_share,
    input wire logic       out_ready,
    input wire logic [2:0] watched  // any candidate's position: constant
);
  localparam int unsigned RUN = 1 << LEVEL;
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

  always_ff @(posedge clk) begin
    started <= 1'b1;
    chosen <= watched;
    assume (!started || watched == chosen);
    assume (!in_valid || !in_run || {last_in.exists, last_in.share} >= {in.exists, in.share});
    assume (entered < 6'd24);
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
    end
  end
endmodule

`default_nettype wire
